//! A policy's values as the policy writes them.

use crate::policy::{OnMissingKey, OnStoreError};

pub(super) fn on_store_error(policy: OnStoreError) -> &'static str {
    match policy {
        OnStoreError::Degraded => "degraded",
        OnStoreError::Open => "open",
        OnStoreError::Closed => "closed",
    }
}

pub(super) fn on_missing_key(policy: OnMissingKey) -> &'static str {
    match policy {
        OnMissingKey::Deny => "deny",
        OnMissingKey::Skip => "skip",
        OnMissingKey::Share => "share",
    }
}
