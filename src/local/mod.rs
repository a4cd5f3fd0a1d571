//! The isolate's own limiter: what it counts by itself, and the refusals it remembers.

pub mod refusals;
pub mod table;

pub use refusals::Refusals;
pub use table::Table;
