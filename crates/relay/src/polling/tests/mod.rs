mod late;
mod leases;
mod pace;
mod retries;
mod rows;
mod world;
