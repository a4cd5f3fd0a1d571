//! Tokens: which requests need theirs verified first, and what JavaScript verifies by. A request walks in, its token
//! is handed out, and it walks in again with the claims: nothing of it is kept in between.

use std::collections::HashMap;

use serde_json::json;

use super::answer::Step;
use super::readings::Taken;
use super::{Gateway, Request, log};
use crate::policy::Jwt;
use crate::policy::jwt::JwtKeys;
use crate::subject::{Claims, Platform, claims};

/// Shortest key of HS256 in bytes (RFC 7518 section 3.2): a shorter one can be guessed from a single token.
const SHORTEST_SECRET: usize = 32;

impl Gateway {
    /// A request of [`Gateway::receive`] whose token was verified. `payload` is the token's payload as it was signed;
    /// `None` where the token is not to be believed, which then counts as none.
    pub fn receive_verified(
        &mut self,
        request: &Request<'_>,
        payload: Option<&str>,
        now_ms: u64,
        random: f64,
    ) -> Step {
        let claims = payload.map(Claims::read).unwrap_or_default();
        self.walk(request, Some(&claims), false, now_ms, random)
    }

    /// A call of [`Gateway::check`] whose described token was verified.
    pub fn check_verified(&mut self, body: &str, payload: Option<&str>, now_ms: u64, random: f64) -> Step {
        let claims = payload.map(Claims::read).unwrap_or_default();
        self.checked(body, Some(&claims), now_ms, random)
    }

    /// What tokens are verified by, as JSON; `None` where no limit counts by one.
    pub fn token_rules(&self) -> Option<String> {
        let jwt = self.rules.policy.jwt.as_ref()?;
        let (jwks, secret) = match &jwt.keys {
            JwtKeys::Jwks(url) => (Some(url), None),
            JwtKeys::Secret(name) => (None, Some(name)),
        };
        let algorithms: Vec<_> = jwt.algorithms.iter().map(|algorithm| algorithm.name()).collect();
        let rules = json!({
            "algorithms": algorithms,
            "jwks": jwks,
            "secret": secret,
            "issuer": jwt.issuer,
            "audience": jwt.audience,
            "leeway_ms": jwt.leeway_ms,
        });
        Some(rules.to_string())
    }

    /// The request's token, where a limit of one of these routes wants a claim and there is one of acceptable form.
    pub(super) fn unverified(&self, taken: &Taken<'_>, platform: &dyn Platform) -> Option<String> {
        let jwt = self.rules.policy.jwt.as_ref()?;
        let mut applying = taken.all().flat_map(|reading| &reading.matched.route.limits);
        let wanted =
            applying.any(|index| self.rules.limits.get(*index).is_some_and(|limit| limit.uses_token));
        let value = if wanted { platform.header(&jwt.header)? } else { return None };
        claims::token(&jwt.header, &value).map(str::to_owned)
    }
}

/// What the log is told of a secret that is missing or can be guessed.
pub(super) fn secret_wanting(jwt: Option<&Jwt>, texts: &HashMap<String, String>) -> Option<String> {
    let JwtKeys::Secret(name) = &jwt?.keys else { return None };
    match texts.get(name).map_or(0, String::len) {
        0 => Some(log::no_secret(name)),
        length if length < SHORTEST_SECRET => Some(log::short_secret(name, SHORTEST_SECRET)),
        _ => None,
    }
}
