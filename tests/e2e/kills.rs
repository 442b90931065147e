//! SIGKILL of each of the three processes.
