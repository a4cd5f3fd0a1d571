//! `sluicegate-check [policy.toml]`: validates a policy.
//!
//! Ends 0 with one line of summary, or 1 with each error as `file:line: what is wrong; what would be right`. A file
//! whose name ends in `.json` is read as the `POLICY` var would be.

#[cfg(not(target_arch = "wasm32"))]
fn main() -> std::process::ExitCode {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().unwrap_or_else(|| "policy.toml".to_owned());
    if arguments.next().is_some() || file.starts_with('-') {
        eprintln!("usage: sluicegate-check [policy.toml]");
        return std::process::ExitCode::FAILURE;
    }
    match check(&file) {
        Ok(summary) => {
            println!("{summary}");
            std::process::ExitCode::SUCCESS
        }
        Err(errors) => {
            for error in errors {
                eprintln!("{error}");
            }
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(not(target_arch = "wasm32"))]
fn check(file: &str) -> Result<String, Vec<String>> {
    use sluicegate::policy::document;

    let text = std::fs::read_to_string(file).map_err(|error| {
        vec![format!("{file}: cannot be read ({error}); name a policy file, such as policy.toml")]
    })?;
    let json = std::path::Path::new(file).extension().is_some_and(|extension| extension == "json");
    let read = if json { document::read_json(&text) } else { document::read_toml(&text) };
    let policy = read.map_err(|errors| errors.iter().map(|error| error.in_file(file)).collect::<Vec<_>>())?;
    let (limits, routes) = (policy.limits.len(), policy.router.routes().len());
    Ok(format!("{file}: ok, {}, {}", counted(limits, "limit"), counted(routes, "route")))
}

#[cfg(not(target_arch = "wasm32"))]
fn counted(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// The checker is a host program; this lets `cargo build --target wasm32-unknown-unknown` pass over it.
#[cfg(target_arch = "wasm32")]
fn main() {}
