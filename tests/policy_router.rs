//! The tree against a router that tries every route, written from the definitions.

use proptest::prelude::*;
use sluicegate::policy::pattern::{Pattern, Segment};
use sluicegate::policy::routes::{Conflict, Route, Router};

fn segments(path: &str) -> Vec<&str> {
    path.split('/').filter(|segment| !segment.is_empty()).collect()
}

/// How well a pattern fits a path, segment by segment; smaller is more specific. `None`: it does not fit.
fn fit(pattern: &Pattern, path: &[&str]) -> Option<Vec<u8>> {
    let mut ranks = Vec::new();
    let mut rest = path.iter();
    for segment in &pattern.segments {
        match segment {
            Segment::Rest(_) => {
                ranks.push(3);
                return Some(ranks);
            }
            Segment::Literal(text) => ranks.push(rest.next().filter(|s| *s == text).map(|_| 1)?),
            Segment::Param(_) => ranks.push(rest.next().map(|_| 2)?),
        }
    }
    // The path's end is more specific than a `{*rest}` that takes nothing.
    ranks.push(0);
    rest.next().is_none().then_some(ranks)
}

/// 0: named; 1: GET named for a HEAD; 2: every method.
fn method_rank(route: &Route, method: &str) -> Option<u8> {
    let names = |method: &str| route.methods.iter().any(|m| m == method);
    if names(method) {
        return Some(0);
    }
    if method == "HEAD" && names("GET") {
        return Some(1);
    }
    route.methods.is_empty().then_some(2)
}

fn host_rank(route: &Route, host: &str) -> Option<u8> {
    match &route.host {
        None => Some(1),
        Some(named) => (named == host).then_some(0),
    }
}

fn naive(routes: &[Route], method: &str, host: &str, path: &str) -> Option<usize> {
    let path = segments(path);
    let rank = |route: &Route| {
        Some((fit(&route.pattern, &path)?, method_rank(route, method)?, host_rank(route, host)?))
    };
    let ranked = routes.iter().enumerate().filter_map(|(index, route)| Some((rank(route)?, index)));
    ranked.min().map(|(_, index)| index)
}

/// The shape of a pattern without the parameters' names.
fn shape(route: &Route) -> Vec<String> {
    let shape = route.pattern.segments.iter().map(|segment| match segment {
        Segment::Literal(text) => format!("={text}"),
        Segment::Param(_) => "{}".to_owned(),
        Segment::Rest(_) => "{*}".to_owned(),
    });
    shape.collect()
}

fn alike(a: &Route, b: &Route) -> bool {
    let methods = (a.methods.is_empty() && b.methods.is_empty())
        || a.methods.iter().any(|method| b.methods.contains(method));
    shape(a) == shape(b) && methods && a.host == b.host
}

/// Patterns over so few words that they meet often.
fn path_pattern() -> impl Strategy<Value = String> {
    let segment = prop::sample::select(vec!["a", "b", "c", "{}"]);
    (prop::collection::vec(segment, 0..4), any::<bool>()).prop_map(|(segments, rest)| {
        let mut path = String::new();
        for (index, segment) in segments.iter().enumerate() {
            path.push('/');
            path.push_str(&segment.replace("{}", &format!("{{p{index}}}")));
        }
        if rest {
            path.push_str("/{*rest}");
        }
        if path.is_empty() { "/".to_owned() } else { path }
    })
}

fn route() -> impl Strategy<Value = Route> {
    let methods = prop::sample::subsequence(vec!["GET", "HEAD", "POST"], 0..=3);
    let host = prop::option::of(prop::sample::select(vec!["h", "i"]));
    (path_pattern(), methods, host).prop_map(|(path, methods, host)| Route {
        name: String::new(),
        pattern: Pattern::parse(&path).unwrap(),
        path,
        methods: methods.into_iter().map(str::to_owned).collect(),
        host: host.map(str::to_owned),
        limits: Vec::new(),
        origin: None,
        optimistic: false,
    })
}

fn request_path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "d"]), 0..6)
        .prop_map(|segments| format!("/{}", segments.join("/")))
}

/// Without the routes that could not be told from an earlier one.
fn distinct(routes: Vec<Route>) -> Vec<Route> {
    let mut kept: Vec<Route> = Vec::new();
    for route in routes {
        if !kept.iter().any(|other| alike(other, &route)) {
            kept.push(route);
        }
    }
    kept
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_tree_finds_what_trying_every_route_finds(
        routes in prop::collection::vec(route(), 0..24),
        requests in prop::collection::vec(
            (prop::sample::select(vec!["GET", "HEAD", "POST", "PUT"]), prop::sample::select(vec!["h", "i", "j"]),
             request_path()),
            1..20,
        ),
    ) {
        let routes = distinct(routes);
        let router = Router::new(routes.clone()).unwrap();
        for (method, host, path) in &requests {
            let found = router.match_route(method, host, path);
            prop_assert_eq!(
                found.as_ref().map(|matched| matched.index),
                naive(&routes, method, host, path),
                "{} {} {} of {:#?}", method, host, path, routes
            );
            let Some(matched) = found else { continue };
            // Put back into the pattern, the parameters give the path.
            let mut values = matched.params.iter();
            let mut again = String::new();
            for segment in &matched.route.pattern.segments {
                let (name, value) = match segment {
                    Segment::Literal(text) => ("", text.as_str()),
                    Segment::Param(name) | Segment::Rest(name) => {
                        let (named, value) = values.next().unwrap();
                        prop_assert_eq!(named, name);
                        (*named, *value)
                    }
                };
                prop_assert!(name.is_empty() || name == "rest" || !value.is_empty());
                if !value.is_empty() {
                    again = format!("{again}/{value}");
                }
            }
            prop_assert!(values.next().is_none());
            prop_assert_eq!(if again.is_empty() { "/" } else { &again }, path);
        }
    }

    #[test]
    fn conflicts_are_the_routes_that_are_alike(routes in prop::collection::vec(route(), 0..12)) {
        let conflicts = Router::new(routes.clone()).err().unwrap_or_default();
        for Conflict { first, second } in &conflicts {
            prop_assert!(first < second && alike(&routes[*first], &routes[*second]));
        }
        let second = |index: usize| conflicts.iter().any(|conflict| conflict.second == index);
        for (index, route) in routes.iter().enumerate() {
            // A route that was refused takes no place, and so is in nobody's way.
            let earlier = routes.iter().enumerate().take(index).any(|(i, other)| !second(i) && alike(other, route));
            prop_assert_eq!(second(index), earlier);
        }
    }
}
