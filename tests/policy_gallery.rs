//! `tests/policies`: good ones are read; bad ones give the errors they announce and no others.
//!
//! A bad file opens with one `# expect: LINE: TEXT` for each error, where LINE counts the lines of the whole file
//! and TEXT stands in the error as it is shown. JSON holds no comments: what `NAME.json` must give stands in
//! `NAME.expect`, one `LINE: TEXT` a line, where LINE is `-` for errors that are known by their place alone.

use std::fs;
use std::path::{Path, PathBuf};

use sluicegate::policy::Policy;
use sluicegate::policy::document::{read_json, read_toml, toml_to_json};

fn files(folder: &str) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/policies").join(folder);
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

/// The lines and texts a bad file announces.
fn expected(text: &str) -> Vec<(u32, String)> {
    let announced = text.lines().filter_map(|line| line.strip_prefix("# expect: "));
    announced
        .map(|rest| {
            let (line, text) = rest.split_once(": ").unwrap();
            (line.parse().unwrap(), text.to_owned())
        })
        .collect()
}

#[test]
fn good_policies_are_read_and_mean_the_same_in_json() {
    for (path, text) in files("good") {
        let read = read_toml(&text).unwrap_or_else(|errors| panic!("{}: {errors:#?}", path.display()));
        let json = toml_to_json(&text).unwrap();
        let again = read_json(&json).unwrap_or_else(|errors| panic!("{}: {errors:#?}", path.display()));
        // Routers hold hash maps, whose order is none; all they hold comes from their routes.
        let shown = |policy: &Policy| {
            let Policy { gateway, store, degraded, jwt, limits, digest, .. } = policy;
            let parts = (gateway, store, degraded, jwt, limits, digest);
            format!("{parts:#?} {:#?}", policy.router.routes())
        };
        assert_eq!(shown(&read), shown(&again), "{}", path.display());
    }
}

#[test]
fn bad_policies_give_the_errors_they_announce() {
    let mut wrong = Vec::new();
    for (path, text) in files("bad") {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let mut awaited = expected(&text);
        assert!(!awaited.is_empty(), "{name} announces nothing");
        let errors = read_toml(&text).err().unwrap_or_default();
        assert!(errors.is_sorted_by_key(|error| error.line), "{name}: not in the order of lines");
        for error in errors {
            let shown = error.to_string();
            let fits = |(line, text): &(u32, String)| error.line == Some(*line) && shown.contains(text);
            match awaited.iter().position(fits) {
                Some(index) => drop(awaited.remove(index)),
                None => wrong.push(format!("{name}:{shown}\n    was not announced")),
            }
        }
        wrong.extend(awaited.iter().map(|(line, text)| format!("{name}:{line}: {text}\n    did not come")));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// In JSON the same errors are found, known by their places.
#[test]
fn bad_policies_are_as_bad_in_json() {
    for (path, text) in files("bad") {
        let Ok(json) = toml_to_json(&text) else { continue };
        let errors = read_json(&json).err().unwrap_or_default();
        assert_eq!(errors.len(), expected(&text).len(), "{}: {errors:#?}", path.display());
        assert!(errors.iter().all(|error| error.line.is_none()), "{}", path.display());
    }
}

#[test]
fn bad_json_gives_the_errors_it_announces() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/policies/bad");
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        seen += 1;
        let announced = fs::read_to_string(path.with_extension("expect")).unwrap();
        let errors = read_json(&fs::read_to_string(&path).unwrap()).err().unwrap_or_default();
        assert_eq!(errors.len(), announced.lines().count(), "{}: {errors:#?}", path.display());
        for (error, announced) in errors.iter().zip(announced.lines()) {
            let (line, text) = announced.split_once(": ").unwrap();
            assert_eq!(
                error.line.map_or("-".to_owned(), |line| line.to_string()),
                line,
                "{}",
                path.display()
            );
            assert!(error.to_string().contains(text), "{}: {error}", path.display());
        }
    }
    assert!(seen > 0);
}

#[test]
fn the_shipped_policy_is_good() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("policy.toml")).unwrap();
    assert!(text.starts_with("#:schema ./policy.schema.json\n"));
    if let Err(errors) = read_toml(&text) {
        panic!("{errors:#?}");
    }
}
