//! The isolate's own limiter: what it counts by itself, the refusals it remembers, and the permits it has in hand.

pub mod permits;
pub mod refusals;
pub mod table;

pub use permits::Permits;
pub use refusals::Refusals;
pub use table::Table;

use std::rc::Rc;

/// A subject of one limit, as the isolate keeps it apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// What the store's keys of this limit begin with: it names the limit, its algorithm and its window, and so outlives a
    /// change of policy that leaves these as they are.
    pub stem: Rc<str>,
    /// The subject, as keys in the store end with it.
    pub subject: Rc<str>,
}
