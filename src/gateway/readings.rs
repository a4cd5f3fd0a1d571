//! Which routes take a request, where its path can be read in more than one way.
//!
//! Origins disagree about such a path: for one of them `/v1/a%2Fb` has three segments and for another two, and
//! `/a//../b` is `/b` or `/a/b`. The route of either reading counts, so that neither reading dodges a limit.

use super::admit::{self, Admission, CostSource};
use super::answer::Answer;
use super::prepared::Prepared;
use crate::policy::Router;
use crate::policy::routes::Matched;
use crate::subject::{Digester, HttpRequest};

/// The route that takes one reading of a path.
pub(super) struct Reading<'a> {
    /// Canonical.
    pub path: &'a str,
    /// What takes it.
    pub matched: Matched<'a>,
}

/// The routes that take a request: the first says where it goes, the second, where there is one, counts it as well. Both
/// may be the same route, with other parameters.
pub(super) fn taken<'a>(
    router: &'a Router,
    method: &str,
    host: &str,
    path: &'a str,
    other: Option<&'a str>,
) -> Option<(Reading<'a>, Option<Reading<'a>>)> {
    let take = |path: &'a str| Some(Reading { path, matched: router.match_route(method, host, path)? });
    let second = other.and_then(take);
    match take(path) {
        None => second.map(|only| (only, None)),
        Some(first) => Some((first, second)),
    }
}

/// [`admit::admit`] over the limits of both readings, each subject of a limit once. A limit that sees two subjects in
/// one request counts it for both: whichever the origin means has been counted.
pub(super) fn admit_both(
    limits: &[Prepared],
    first: (&[usize], &HttpRequest<'_>),
    second: Option<(&[usize], &HttpRequest<'_>)>,
    costs: CostSource,
    digester: &Digester,
) -> Result<Admission, Answer> {
    let (chosen, request) = first;
    let mut admission = admit::admit(limits, chosen, request, costs, digester)?;
    if let Some((more, read_otherwise)) = second {
        let mut also = admit::admit(limits, more, read_otherwise, costs, digester)?;
        also.asks.retain(|ask| {
            !admission.asks.iter().any(|known| (known.limit, &known.subject) == (ask.limit, &ask.subject))
        });
        also.blocked.retain(|line| {
            !admission
                .blocked
                .iter()
                .any(|known| (known.limit, &known.subject) == (line.limit, &line.subject))
        });
        admission.asks.extend(also.asks);
        admission.blocked.extend(also.blocked);
        admission.repeat = admission.repeat.or(also.repeat);
    }
    Ok(admission)
}
