//! The tree of path segments behind [`Router`](super::Router).

use std::collections::HashMap;

use super::Route;
use crate::policy::pattern::Segment;

/// What may follow one prefix of path segments.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    literals: HashMap<String, Tree>,
    param: Option<Box<Tree>>,
    /// Routes whose path ends here.
    end: Leaf,
    /// Routes whose path goes on here with `{*rest}`.
    rest: Leaf,
}

impl Tree {
    /// Adds a route, or answers the one already there that it could not be told from.
    pub(super) fn insert(&mut self, index: usize, route: &Route) -> Result<(), usize> {
        let mut at = self;
        for segment in &route.pattern.segments {
            at = match segment {
                Segment::Literal(text) => at.literals.entry(text.clone()).or_default(),
                Segment::Param(_) => at.param.get_or_insert_default(),
                Segment::Rest(_) => return at.rest.insert(index, route),
            };
        }
        at.end.insert(index, route)
    }

    /// The best route for a canonical path, and into `values` what its parameters took.
    ///
    /// Backtracks, but each node has one depth and so is entered once at most: no path makes it cost more than
    /// the nodes its own spelling fits.
    pub(super) fn find<'p>(
        &self,
        method: &str,
        host: &str,
        path: &'p str,
        values: &mut Vec<&'p str>,
    ) -> Option<usize> {
        let rest = path.strip_prefix('/').unwrap_or(path);
        if rest.is_empty() {
            return self.end.pick(method, host).or_else(|| self.pick_rest(method, host, rest, values));
        }
        let behind = rest.find('/').unwrap_or(rest.len());
        let (segment, after) = rest.split_at_checked(behind).unwrap_or((rest, ""));
        let literal = self.literals.get(segment).and_then(|tree| tree.find(method, host, after, values));
        literal
            .or_else(|| self.find_param(method, host, segment, after, values))
            .or_else(|| self.pick_rest(method, host, rest, values))
    }

    fn find_param<'p>(
        &self,
        method: &str,
        host: &str,
        segment: &'p str,
        after: &'p str,
        values: &mut Vec<&'p str>,
    ) -> Option<usize> {
        let tree = self.param.as_ref()?;
        values.push(segment);
        let found = tree.find(method, host, after, values);
        if found.is_none() {
            values.pop();
        }
        found
    }

    fn pick_rest<'p>(
        &self,
        method: &str,
        host: &str,
        rest: &'p str,
        values: &mut Vec<&'p str>,
    ) -> Option<usize> {
        let found = self.rest.pick(method, host)?;
        values.push(rest);
        Some(found)
    }
}

/// The routes of one path.
#[derive(Debug, Clone, Default)]
struct Leaf {
    any_host: Methods,
    hosts: HashMap<String, Methods>,
}

/// The routes of one path and one host.
#[derive(Debug, Clone, Default)]
struct Methods {
    /// A list and not a map: there are about nine methods.
    named: Vec<(String, usize)>,
    any: Option<usize>,
}

impl Leaf {
    fn insert(&mut self, index: usize, route: &Route) -> Result<(), usize> {
        let methods = match &route.host {
            None => &mut self.any_host,
            Some(host) => self.hosts.entry(host.clone()).or_default(),
        };
        if route.methods.is_empty() {
            let first = *methods.any.get_or_insert(index);
            return if first == index { Ok(()) } else { Err(first) };
        }
        if let Some(first) = route.methods.iter().find_map(|method| methods.naming(method)) {
            return Err(first);
        }
        methods.named.extend(route.methods.iter().map(|method| (method.clone(), index)));
        Ok(())
    }

    /// By method, and then by host.
    fn pick(&self, method: &str, host: &str) -> Option<usize> {
        let named = self.hosts.get(host);
        let either =
            |pick: &dyn Fn(&Methods) -> Option<usize>| named.and_then(pick).or_else(|| pick(&self.any_host));
        either(&|methods| methods.naming(method))
            .or_else(|| either(&|methods| methods.naming("GET").filter(|_| method == "HEAD")))
            .or_else(|| either(&|methods| methods.any))
    }
}

impl Methods {
    fn naming(&self, method: &str) -> Option<usize> {
        self.named.iter().find(|(name, _)| name == method).map(|(_, index)| *index)
    }
}
