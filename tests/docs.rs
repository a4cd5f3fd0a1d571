//! What the pages name is there: files, scripts, tests, links. Their blocks and commands are run by `tests/docs/`.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn pages() -> Vec<(PathBuf, String)> {
    let folders = [root().to_owned(), root().join("docs"), root().join("clients")];
    let files =
        folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    let pages = files.filter(|path| path.extension().is_some_and(|kind| kind == "md"));
    pages.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn npm_scripts_in_the_pages_exist() {
    let package = fs::read_to_string(root().join("package.json")).unwrap();
    let package: serde_json::Value = serde_json::from_str(&package).unwrap();
    let mut seen = 0;
    for (path, page) in pages() {
        for (at, _) in page.match_indices("npm run ") {
            let name: String = page[at + 8..].chars().take_while(|c| c.is_ascii_lowercase()).collect();
            assert!(package["scripts"][&name].is_string(), "{}: npm run {name}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 0);
}

#[test]
fn links_between_the_pages_lead_somewhere() {
    for (path, page) in pages() {
        for link in page.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(link, _)| link)) {
            if link.starts_with("http") || link.starts_with('#') {
                continue;
            }
            let file = link.split('#').next().unwrap_or(link);
            let target = path.parent().unwrap_or(root()).join(file);
            assert!(target.exists(), "{}: {link}", path.display());
        }
    }
}

/// What the pages call by its path in the repository is there.
#[test]
fn files_that_the_pages_name_exist() {
    const ROOMS: [&str; 8] = ["src/", "lua/", "tests/", "dev/", "docs/", "bench/", "examples/", "clients/"];
    // Made by the build, by set-up, or a name to be filled in.
    let is_made =
        |word: &str| word.contains(['*', '{', '<', '…']) || word.contains("NAME") || word.contains("…");
    let mut seen = 0;
    for (path, page) in pages() {
        let words = page.split(|c: char| c.is_whitespace() || "`()[],;\"'".contains(c));
        for word in words.map(|word| word.trim_end_matches(['.', ':'])) {
            if ROOMS.iter().any(|room| word.starts_with(room)) && !is_made(word) {
                seen += 1;
                let file = word.split('#').next().unwrap_or(word);
                let here = path.parent().unwrap_or(root()).join(file);
                assert!(root().join(file).exists() || here.exists(), "{}: {word}", path.display());
            }
        }
    }
    assert!(seen > 20, "{seen}");
}

/// `cargo test --test NAME` in the pages names a test that there is.
#[test]
fn tests_that_the_pages_name_exist() {
    let mut seen = 0;
    for (path, page) in pages() {
        for (at, found) in page.match_indices("--test ") {
            let name: String = page[at + found.len()..]
                .chars()
                .take_while(|c| c.is_ascii_lowercase() || *c == '_')
                .collect();
            if name == "tests" || name.is_empty() {
                continue;
            }
            seen += 1;
            let there = root().join(format!("tests/{name}.rs")).exists()
                || root().join(format!("tests/{name}/main.rs")).exists();
            assert!(there, "{}: --test {name}", path.display());
        }
    }
    assert!(seen > 0);
}
