//! The checker as a command: what it prints, and how it ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run(arguments: &[&str], bindings: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicegate-check"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).env_remove("KEY_SECRET");
    command.args(arguments).envs(bindings.iter().copied()).output().unwrap()
}

/// How it ended, and all that it printed.
fn check(arguments: &[&str]) -> (i32, String) {
    let output = run(arguments, &[]);
    let printed = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(printed).unwrap())
}

/// A file of that content, named by its test.
fn file(name: &str, content: &[u8]) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

const GOOD: &str = "version = 1\n[gateway]\norigin = \"binding:API\"\n";

#[test]
fn a_good_policy() {
    assert_eq!(check(&[]), (0, "policy.toml: ok, 3 limits, 3 routes\n".to_owned()));
    let good = file("good.toml", GOOD.as_bytes());
    assert_eq!(check(&[&good]), (0, format!("{good}: ok, 0 limits, 0 routes\n")));
    let json = file("good.json", br#"{"version":1,"gateway":{"origin":"binding:API"}}"#);
    assert_eq!(check(&[&json]), (0, format!("{json}: ok, 0 limits, 0 routes\n")));
}

#[test]
fn the_policy_alone_for_the_namespace() {
    let good = file("canonical.toml", GOOD.as_bytes());
    let policy = r#"{"gateway":{"origin":"binding:API"},"version":1}"#;
    assert_eq!(check(&[&good, "--canonical"]), (0, format!("{policy}\n")));
    let bad = file("canonical-bad.toml", b"version = 2\n");
    let (ended, printed) = check(&[&bad, "--canonical"]);
    assert!(ended == 1 && !printed.contains('{'), "{printed}");
    for other in [&["--json"][..], &["--explain", "GET", "/"][..]] {
        assert_eq!(check(&[&[good.as_str(), "--canonical"], other].concat()).0, 2);
    }
}

#[test]
fn errors_stand_on_lines_of_their_own_in_the_order_of_the_file() {
    let bad = file("bad.toml", b"version = 2\n[gateway]\norigin = 1\nipv6_prefix = 8\n[stoer]\n");
    let lines = [
        "1: version: version 2 is not known; write version = 1",
        "3: gateway.origin: found an integer where a string belongs; put it in quotes",
        "4: gateway.ipv6_prefix: 8 is out of range; write 32 to 128",
        "5: stoer: unknown field \"stoer\"; did you mean \"store\"?",
    ];
    assert_eq!(check(&[&bad]), (1, lines.map(|line| format!("{bad}:{line}\n")).concat()));
    let printed = run(&[&bad, "--json"], &[]);
    assert_eq!(printed.status.code(), Some(1));
    let told: serde_json::Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!((&told["ok"], told["errors"].as_array().unwrap().len()), (&false.into(), 4));
    assert_eq!(
        (&told["errors"][2]["line"], &told["errors"][2]["cure"]),
        (&4.into(), &"write 32 to 128".into())
    );
    // An explanation of a wrong policy would be of none.
    assert_eq!(check(&[&bad, "--explain", "GET", "/"]).0, 1);
}

#[test]
fn files_that_hold_no_policy() {
    let rows: [(&str, &[u8], &str); 6] = [
        ("empty.toml", b"", ":1: version: is missing; write version = 1"),
        ("empty.json", b"", ":1: not JSON:"),
        ("latin-1.toml", b"version = 1\n# caf\xe9\n", ":2: the file is not UTF-8; save it as UTF-8"),
        ("utf-16.toml", b"\xff\xfev\0e\0", ":1: the file is UTF-16; save it as UTF-8"),
        ("list.json", b"[]", ": found a list where a table belongs"),
        (
            "null.json",
            br#"{"version":1,"gateway":{"origin":null}}"#,
            ": gateway.origin: found null where a string",
        ),
    ];
    for (name, content, expected) in rows {
        let bad = file(name, content);
        let (code, printed) = check(&[&bad]);
        assert_eq!(code, 1, "{printed}");
        assert!(printed.starts_with(&format!("{bad}{expected}")), "{printed}");
    }
    let nowhere = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("nowhere.toml");
    let nowhere = nowhere.to_str().unwrap();
    let cure = "name a policy file, such as policy.toml";
    assert_eq!(check(&[nowhere]), (1, format!("{nowhere}: there is no such file; {cure}\n")));
    assert_eq!(check(&["src"]), (1, format!("src: this is a directory; {cure}\n")));
}

/// What editors on Windows leave behind changes neither the policy nor the lines.
#[test]
fn byte_order_marks_and_carriage_returns() {
    let good = file("windows.toml", format!("\u{feff}{}", GOOD.replace('\n', "\r\n")).as_bytes());
    assert_eq!(check(&[&good]).0, 0);
    let bad = format!("\u{feff}{}x = 1\n", GOOD).replace('\n', "\r\n");
    let bad = file("windows-bad.toml", bad.as_bytes());
    let (code, printed) = check(&[&bad]);
    assert_eq!(code, 1);
    assert!(printed.starts_with(&format!("{bad}:4: gateway.x: unknown field")), "{printed}");
    let json = file(
        "windows.json",
        "\u{feff}{\"version\":1,\r\n\"gateway\":{\"origin\":\"binding:API\"}}".as_bytes(),
    );
    assert_eq!(check(&[&json]).0, 0);
}

#[test]
fn wrong_command_lines_end_2_and_print_the_usage() {
    let rows: [(&[&str], &str); 14] = [
        (&["--explian"], "unknown option --explian"),
        (&["-x"], "unknown option -x"),
        (&["a.toml", "b.toml"], "a policy is given twice"),
        (&["--explain"], "--explain wants a method and a URL"),
        (&["--explain", "GET"], "--explain wants a URL behind the method"),
        (&["--explain", "GET", "/", "--explain", "GET", "/"], "--explain is given twice"),
        (&["--explain", "G T", "/"], "\"G T\" is not a method"),
        (&["--explain", "GET", "example.com/x"], "\"example.com/x\" is not a URL; write https://host/path"),
        (&["--explain", "GET", "http:///x"], "is not a URL"),
        (&["--explain", "GET", "/a b"], "holds a space; write it percent-encoded"),
        (
            &["--explain", "GET", "/", "-H", "x-tenant"],
            "-H \"x-tenant\" is not a header; write -H 'Name: value'",
        ),
        (&["--explain", "GET", "/", "--country", "ch"], "--country wants two capital letters"),
        (&["--explain", "GET", "/", "--asn", "AS1"], "--asn wants a number"),
        (&["-H", "a: b"], "-H describes a request: write --explain METHOD URL as well"),
    ];
    for (arguments, expected) in rows {
        let (code, printed) = check(arguments);
        assert_eq!(code, 2, "{arguments:?}: {printed}");
        let first = printed.lines().next().unwrap();
        assert!(first.contains(expected), "{arguments:?}: {first}");
        assert!(printed.contains("usage: npm run check"), "{printed}");
    }
    let (code, printed) = check(&["--help"]);
    assert!(code == 0 && printed.starts_with("usage: npm run check"), "{printed}");
}

/// Explains under `everything.toml`; the lines printed, without what is beside them.
fn explained(arguments: &[&str], bindings: &[(&str, &str)]) -> String {
    let all = [&["tests/policies/good/everything.toml", "--explain"], arguments].concat();
    let output = run(&all, bindings);
    assert_eq!(output.status.code(), Some(0));
    let printed = String::from_utf8(output.stdout).unwrap();
    printed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n").collect()
}

fn has(printed: &str, lines: &[&str]) {
    for line in lines {
        assert!(printed.contains(&format!("{line}\n")), "no line {line:?} in\n{printed}");
    }
}

const ITEM: [&str; 2] = ["M-SEARCH", "https://api.example.com/items/%37/a//b?plan=team&filter[a]=z"];

#[test]
fn explains_a_request() {
    let more = ["-H", "X-Real-IP: 2001:db8::7", "-H", "X-Tenant: acme", "-H", "x-cost: 3", "--asn", "13335"];
    let printed =
        explained(&[&ITEM[..], &more, &["-H", "Cookie: Sid=s; staff=no", "--country", "FR"]].concat(), &[]);
    // An exempted network holds this address for the limit that takes the defaults.
    has(
        &printed,
        &[
            "path /items/7/a/b",
            "route item: GET, M-SEARCH /items/{id}/{*rest} on api.example.com, id = \"7\", rest = \"a/b\"",
            "limit bucket (token-bucket)",
            "counts it yes",
            "quota 70 per 1s, 200 at once from idle: plan \"team\", by query:plan",
            "cost 3, as header x-cost says (at most 5)",
            "key header:x-tenant = \"acme\"",
            "cookie:Sid = \"s\"",
            "query:filter[a] = \"z\"",
            "param:id = \"7\"",
            "ip = \"2001:db8::/48\"",
            "asn = \"13335\"",
            "part missing share: one counter for all such requests",
            "exempt no, by none of header:x-internal-token, cookie:staff",
            "header:x-internal-token = binding:INTERNAL_TOKEN is not set here, so it exempts nobody",
            "from idle passes, 197 left",
            "on_store_error degraded: each isolate grants 17 per 1s, 49 at once from idle",
            "limit log (sliding-log, in shadow: counts and never refuses)",
            "counts it no, it is exempt",
            "exempt yes, by ip in 2001:db8::/32",
            "digests SHA-256, as KEY_SECRET is not set",
            "answer forwarded to http://[::1]:8082, if its subjects have used nothing yet",
            "store down the isolate decides alone, by bucket",
        ],
    );
    assert!(!printed.contains("Sluicegate-Tier"), "{printed}");
}

#[test]
fn bindings_come_from_the_environment_and_are_not_printed() {
    let tenant = ["-H", "x-tenant: acme", "-H", "x-internal-token: letters"];
    let all = [&ITEM[..], &tenant].concat();
    let key = |printed: &str| printed.lines().find(|line| line.starts_with("store key")).map(str::to_owned);
    let plain = explained(&all, &[]);
    let keyed = explained(&all, &[("KEY_SECRET", "hush-hush")]);
    has(&keyed, &["digests HMAC under KEY_SECRET"]);
    assert!(key(&plain).is_some() && key(&plain) != key(&keyed));
    let exempt = explained(&all, &[("INTERNAL_TOKEN", "letters"), ("KEY_SECRET", "hush-hush")]);
    has(&exempt, &["counts it no, it is exempt", "exempt yes, by header:x-internal-token"]);
    assert!(!exempt.contains("hush-hush") && !exempt.contains("letters"), "{exempt}");
}

#[test]
fn claims_are_those_of_a_verified_token() {
    let explain = |claims: &[&str]| {
        let route = "version = 1\ngateway.origin = 'binding:API'\njwt = { algorithms = ['HS256'], secret = 'S' }\n\
            [[limits]]\nname = 'a'\nalgorithm = 'fixed-window'\nlimit = 5\nwindow = '1m'\nkey = ['jwt:sub']\n\
            on_store_error = 'open'\n[[routes]]\nname = 'r'\npath = '/'\nlimits = ['a']\n";
        let policy = file("claims.toml", route.as_bytes());
        check(&[&[&policy, "--explain", "GET", "/"], claims].concat())
    };
    let (code, printed) = explain(&["--claim", "sub=ada=1"]);
    assert!(code == 0 && printed.contains("key             jwt:sub = \"ada=1\"\n"), "{printed}");
    let (code, printed) = explain(&["--claim", "plan=x"]);
    assert!(
        code == 0 && printed.contains("jwt:sub: the request has none; give it with --claim 'sub=…'\n"),
        "{printed}"
    );
    assert_eq!(explain(&["--claim", "=x"]).0, 2);
}

#[test]
fn says_what_is_missing_and_how_to_give_it() {
    let (_, printed) = check(&["--explain", "POST", "/v1/chat"]);
    for line in [
        "  counts it       no, it cannot: 400 limit tenant-minute counts by header:x-tenant, and the request has none",
        "  key             header:x-tenant: the request has none; give it with -H 'x-tenant: …'",
        "  key             ip: the request has none; give it with -H 'cf-connecting-ip: 192.0.2.1'",
        "  answer          400 Missing key: limit client-burst counts by ip, and the request has none",
    ] {
        assert!(printed.contains(line), "no line {line:?} in\n{printed}");
    }
    let (_, printed) = check(&["--explain", "GET", "/v1/chat"]);
    let line =
        "none takes it; the route chat would with POST; by gateway.unmatched it passes without a limit";
    assert!(printed.contains(line), "{printed}");
}

#[test]
fn explains_in_json() {
    let output = run(
        &["--json", "--explain", "GET", "https://example.com/hello", "-H", "CF-Connecting-IP: 192.0.2.1"],
        &[],
    );
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["limits"][0]["store_key"], "sg:1:hello-minute:f1m:192.0.2.1");
    assert_eq!(told["course"], "limited");
}
