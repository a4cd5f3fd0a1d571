//! What tests of several rooms share.

pub mod random;
pub mod redis;
