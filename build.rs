//! Compiles in what must be right before anything can be deployed: the policy, validated, and the scripts.

#[allow(dead_code, unused_imports, reason = "the same room as the crate's, of which a build needs a part")]
#[path = "src/policy/mod.rs"]
mod policy;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use sha1::{Digest, Sha1};

const POLICY: &str = "policy.toml";
const SCRIPTS: &str = "lua";
/// Upstash locks the whole database for a script that does not open with this; a plain Redis refuses it.
const UPSTASH_FLAGS: &str = "#!lua flags=allow-key-locking\n";

fn main() {
    for path in ["build.rs", "src/policy", POLICY, SCRIPTS] {
        println!("cargo::rerun-if-changed={path}");
    }
    let written = out_dir().and_then(|out| {
        write(&out.join("policy.json"), policy_json())?;
        write(&out.join("scripts.rs"), scripts())
    });
    // Lines of cargo's own error form: it prints them and fails the build, without a backtrace around them.
    for error in written.err().unwrap_or_default() {
        println!("cargo::error={error}");
    }
}

fn out_dir() -> Result<PathBuf, Vec<String>> {
    env::var_os("OUT_DIR").map(PathBuf::from).ok_or_else(|| vec!["OUT_DIR is not set".to_owned()])
}

fn write(path: &Path, text: Result<String, Vec<String>>) -> Result<(), Vec<String>> {
    fs::write(path, text?).map_err(|error| vec![format!("{}: {error}", path.display())])
}

fn read(path: &Path) -> Result<String, Vec<String>> {
    fs::read_to_string(path).map_err(|error| vec![format!("{}: {error}", path.display())])
}

/// The policy as the Worker reads it. Validated twice: as it was written, for the lines, and as it comes out.
fn policy_json() -> Result<String, Vec<String>> {
    let text = read(Path::new(POLICY))?;
    let shown = |errors: Vec<policy::PolicyError>| -> Vec<String> {
        errors.iter().map(|error| error.in_file(POLICY)).collect()
    };
    policy::document::read_toml(&text).map_err(shown)?;
    let json = policy::document::toml_to_json(&text).map_err(shown)?;
    policy::document::read_json(&json).map_err(shown)?;
    Ok(json)
}

/// One constant for each script, named by its file.
fn scripts() -> Result<String, Vec<String>> {
    let mut files: Vec<PathBuf> = fs::read_dir(SCRIPTS)
        .map_err(|error| vec![format!("{SCRIPTS}: {error}")])?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "lua"))
        .collect();
    files.sort();
    let mut constants = String::new();
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().to_ascii_uppercase();
        let redis = stripped(&file, &read(&file)?)?;
        let upstash = format!("{UPSTASH_FLAGS}{redis}");
        // One text for both forms: they would weigh twice in the Wasm.
        let _ = writeln!(
            constants,
            "const {name}_TEXT: &str = {upstash:?};\n/// `{}`, without its comments.\npub const {name}: Script = Script {{\n    \
             redis: {name}_TEXT.split_at({}).1,\n    redis_sha: \"{}\",\n    upstash: {name}_TEXT,\n    \
             upstash_sha: \"{}\",\n}};",
            file.display(),
            UPSTASH_FLAGS.len(),
            sha1_hex(&redis),
            sha1_hex(&upstash),
        );
    }
    Ok(constants)
}

/// The script without whole-line comments, indentation and blank lines: they would travel with every EVAL and weigh in the Wasm.
///
/// Lines are told apart without parsing Lua, which is only right where no comment or string spans lines: `[[` and
/// `[=` are refused.
fn stripped(file: &Path, text: &str) -> Result<String, Vec<String>> {
    let mut kept = String::new();
    for (index, line) in text.lines().enumerate() {
        let code = line.trim();
        let comment = code.starts_with("--");
        let long = if comment { ["--[[", "--[="] } else { ["[[", "[="] };
        if long.iter().any(|open| if comment { code.starts_with(open) } else { code.contains(open) }) {
            let line = index.saturating_add(1);
            return Err(vec![format!(
                "{}:{line}: a long bracket; write comments with -- on each line and strings in quotes",
                file.display()
            )]);
        }
        if !code.is_empty() && !comment {
            kept.push_str(code);
            kept.push('\n');
        }
    }
    Ok(kept)
}

fn sha1_hex(text: &str) -> String {
    Sha1::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
