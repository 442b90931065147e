//! Placeholder until the decoder lands.
mod lsn {
    /// A WAL position.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Lsn(u64);
    impl Lsn {
        /// From.
        pub const fn from_u64(v: u64) -> Self {
            Self(v)
        }
        /// To.
        pub const fn as_u64(self) -> u64 {
            self.0
        }
    }
    impl std::fmt::Display for Lsn {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xffff_ffff)
        }
    }
}
pub use lsn::Lsn;
