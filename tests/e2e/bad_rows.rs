//! Rows that cannot become records: a coded error with the remedy, nothing lost, resumed from that row when mended.
