mod leases;
mod retries;
mod rows;
mod world;
