//! `sluicegate-check [policy.toml] [--explain METHOD URL …] [--json]`: validates a policy, and explains what a request
//! would get under it.
//!
//! Ends 0 with a summary or the explanation; 1 where the policy is wrong, with each error as
//! `file:line: what is wrong; what would be right`; 2 where the command line is.

#[cfg(not(target_arch = "wasm32"))]
mod arguments;
#[cfg(not(target_arch = "wasm32"))]
mod request;
#[cfg(not(target_arch = "wasm32"))]
mod source;

#[cfg(not(target_arch = "wasm32"))]
fn main() -> std::process::ExitCode {
    use arguments::{Asked, Wanted};

    let wanted = match arguments::read(std::env::args_os().skip(1)) {
        Ok(Asked::Check(wanted)) => wanted,
        Ok(Asked::Help) => {
            print(arguments::USAGE);
            return std::process::ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprintln!("{problem}\n\n{}", arguments::USAGE);
            return std::process::ExitCode::from(2);
        }
    };
    let Wanted { file, json, canonical, request } = wanted;
    let answer = source::read(&file).and_then(|source| match request {
        None if canonical => Ok(source.json),
        None => Ok(source.summary(json)),
        Some(request) => request.explained(&source, json),
    });
    match answer {
        Ok(text) => {
            print(&text);
            std::process::ExitCode::SUCCESS
        }
        Err(errors) => {
            if json {
                print(&source::errors_json(&file, &errors));
            } else {
                errors.iter().for_each(|error| eprintln!("{}", error.in_file(&file)));
            }
            std::process::ExitCode::FAILURE
        }
    }
}

/// A reader that has gone, such as `head`, is no reason to panic.
#[cfg(not(target_arch = "wasm32"))]
fn print(text: &str) {
    use std::io::Write as _;

    let _ = writeln!(std::io::stdout(), "{}", text.trim_end());
}

/// The checker is a host program; this lets `cargo build --target wasm32-unknown-unknown` pass over it.
#[cfg(target_arch = "wasm32")]
fn main() {}
