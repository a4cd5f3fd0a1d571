//! Which route a request takes.
//!
//! The most specific path wins: segment by segment a literal before a `{param}` before a `{*rest}`, and the path's
//! end before a `{*rest}` that takes nothing. Among routes of one path the one that names the method comes first,
//! then the one that names the host. A route that does not fit never hides one that does, however specific it is.
//!
//! A route naming GET takes HEAD as well, behind any that names HEAD and ahead of those that take every method:
//! RFC 9110 (section 9.3.2) lets a client ask either about the same resource, so HEAD must not dodge GET's limits.

mod tree;

use super::Origin;
use super::pattern::Pattern;
use tree::Tree;

/// One `[[routes]]` entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Unique; the same characters as a limit's name.
    pub name: String,
    /// The pattern as written.
    pub path: String,
    /// The pattern as matched.
    pub pattern: Pattern,
    /// Methods it takes; none: all.
    pub methods: Vec<String>,
    /// Host it takes, lower case, without port or trailing dot; `None`: all.
    pub host: Option<String>,
    /// Indices into [`Policy::limits`](super::Policy::limits), in the order written; may be empty.
    pub limits: Vec<usize>,
    /// Where its requests go instead of `gateway.origin`.
    pub origin: Option<Origin>,
    /// GET and HEAD reach the origin while the store decides.
    pub optimistic: bool,
}

/// The routes, found through a tree of path segments: the time a request takes depends on the length of its path
/// and not on how many routes there are.
#[derive(Debug, Clone, Default)]
pub struct Router {
    routes: Vec<Route>,
    tree: Tree,
}

/// Two routes no request could tell apart: one path but for parameter names, one host, a method in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conflict {
    /// Index of the route written first.
    pub first: usize,
    /// Index of the other.
    pub second: usize,
}

/// The route of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matched<'a> {
    /// Index of the route in [`Router::routes`].
    pub index: usize,
    /// The route.
    pub route: &'a Route,
    /// The path's parameters by name, in order, decoded. What `{*rest}` took has no slash in front and is empty
    /// when it took nothing.
    pub params: Vec<(&'a str, &'a str)>,
}

impl Router {
    /// A router over these routes.
    ///
    /// # Errors
    /// Every pair that could not be told apart, each route named as the second of one pair at most.
    pub fn new(routes: Vec<Route>) -> Result<Self, Vec<Conflict>> {
        let mut tree = Tree::default();
        let mut conflicts = Vec::new();
        for (index, route) in routes.iter().enumerate() {
            if let Err(first) = tree.insert(index, route) {
                conflicts.push(Conflict { first, second: index });
            }
        }
        if conflicts.is_empty() { Ok(Self { routes, tree }) } else { Err(conflicts) }
    }

    /// The routes in the order written.
    #[must_use]
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// The route of a request, if any takes it. Allocates only for parameters.
    ///
    /// `host` is in lower case without port or trailing dot, `path` is [canonical](super::path::canonical).
    #[must_use]
    pub fn match_route<'a>(&'a self, method: &str, host: &str, path: &'a str) -> Option<Matched<'a>> {
        let mut values = Vec::new();
        let index = self.tree.find(method, host, path, &mut values)?;
        let route = self.routes.get(index)?;
        let params = route.pattern.params().zip(values).collect();
        Some(Matched { index, route, params })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `METHODS host? path`, methods comma-separated or `*`.
    fn route(text: &str) -> Route {
        let mut words = text.split(' ');
        let methods = words.next().unwrap().split(',').filter(|m| *m != "*").map(str::to_owned).collect();
        let path = words.next_back().unwrap();
        Route {
            name: text.to_owned(),
            path: path.to_owned(),
            pattern: Pattern::parse(path).unwrap(),
            methods,
            host: words.next().map(str::to_owned),
            limits: Vec::new(),
            origin: None,
            optimistic: false,
        }
    }

    fn router(routes: &[&str]) -> Router {
        Router::new(routes.iter().map(|text| route(text)).collect()).unwrap()
    }

    fn name<'r>(router: &'r Router, method: &str, host: &str, path: &'r str) -> &'r str {
        router.match_route(method, host, path).map_or("-", |matched| &matched.route.name)
    }

    #[test]
    fn the_most_specific_path_wins() {
        let router =
            router(&["* /{*all}", "* /a/{x}", "* /a/b", "* /a/{x}/c", "* /a", "* /a/{*rest}", "* /"]);
        let rows = [
            ("/", "* /"),
            ("/z", "* /{*all}"),
            ("/z/y", "* /{*all}"),
            ("/a", "* /a"),
            ("/a/b", "* /a/b"),
            ("/a/z", "* /a/{x}"),
            ("/a/b/c", "* /a/{x}/c"),
            ("/a/b/d", "* /a/{*rest}"),
            ("/ab", "* /{*all}"),
        ];
        for (path, expected) in rows {
            assert_eq!(name(&router, "GET", "h", path), expected, "{path}");
        }
    }

    #[test]
    fn a_route_that_does_not_fit_hides_none_that_does() {
        let router = router(&["POST /a/b", "* h /a/{x}", "GET /{*rest}"]);
        assert_eq!(name(&router, "POST", "h", "/a/b"), "POST /a/b");
        assert_eq!(name(&router, "PUT", "h", "/a/b"), "* h /a/{x}");
        assert_eq!(name(&router, "GET", "i", "/a/b"), "GET /{*rest}");
        assert_eq!(name(&router, "PUT", "i", "/a/b"), "-");
    }

    #[test]
    fn then_the_method_then_the_host() {
        let router = router(&["* /a", "* h /a", "GET /a", "GET h /a"]);
        assert_eq!(name(&router, "GET", "h", "/a"), "GET h /a");
        assert_eq!(name(&router, "GET", "i", "/a"), "GET /a");
        assert_eq!(name(&router, "PUT", "h", "/a"), "* h /a");
        assert_eq!(name(&router, "PUT", "i", "/a"), "* /a");
        assert_eq!(name(&router, "get", "i", "/a"), "* /a");
        let router = super::tests::router(&["* h /a", "GET /a"]);
        assert_eq!(name(&router, "GET", "h", "/a"), "GET /a");
    }

    #[test]
    fn get_takes_head_unless_another_names_it() {
        let router = router(&["GET /a", "* /a", "GET /b", "HEAD h /b", "POST /c"]);
        assert_eq!(name(&router, "HEAD", "h", "/a"), "GET /a");
        assert_eq!(name(&router, "HEAD", "h", "/b"), "HEAD h /b");
        assert_eq!(name(&router, "HEAD", "i", "/b"), "GET /b");
        assert_eq!(name(&router, "HEAD", "h", "/c"), "-");
    }

    #[test]
    fn parameters() {
        let router = router(&["GET /u/{id}", "POST /u/{user}", "* /u/{id}/{*rest}", "* /f/{*rest}"]);
        let rows = [
            ("GET", "/u/7", vec![("id", "7")]),
            ("POST", "/u/7", vec![("user", "7")]),
            ("GET", "/u/7/a/b", vec![("id", "7"), ("rest", "a/b")]),
            ("GET", "/f/x", vec![("rest", "x")]),
            ("GET", "/f", vec![("rest", "")]),
        ];
        for (method, path, params) in rows {
            assert_eq!(router.match_route(method, "h", path).unwrap().params, params, "{method} {path}");
        }
        // A parameter left behind by a way that led nowhere is not the route's.
        let router = super::tests::router(&["* /{a}/x", "* /{*rest}"]);
        assert_eq!(router.match_route("GET", "h", "/1/2").unwrap().params, [("rest", "1/2")]);
    }

    #[test]
    fn routes_that_could_not_be_told_apart() {
        let conflicts = |routes: &[&str]| {
            let built = Router::new(routes.iter().map(|text| route(text)).collect());
            built.err().unwrap_or_default().iter().map(|c| (c.first, c.second)).collect::<Vec<_>>()
        };
        assert_eq!(conflicts(&["* /a/{x}", "* /a/{y}"]), [(0, 1)]);
        assert_eq!(conflicts(&["* /a", "* /a/"]), [(0, 1)]);
        assert_eq!(conflicts(&["GET,POST /a", "PUT,POST /a"]), [(0, 1)]);
        assert_eq!(conflicts(&["GET h /a", "GET h /a", "GET h /a"]), [(0, 1), (0, 2)]);
        assert_eq!(conflicts(&["GET /a", "* /a", "GET h /a", "* h /a", "HEAD /a"]), []);
        assert_eq!(conflicts(&["* /a/{x}", "* /a/{*x}", "* /a", "* /a/x"]), []);
    }

    #[test]
    fn no_routes_match_nothing() {
        assert_eq!(Router::default().match_route("GET", "h", "/"), None);
    }
}
