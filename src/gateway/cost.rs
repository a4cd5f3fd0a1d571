//! What a request costs: an integer, 0 included, or a reason to answer 400 before the store is asked.

use crate::policy::Cost;

/// The cost that a client's text asks for. Digits only: no sign, no point, no exponent, nothing behind.
pub fn parse(text: &str, max: u64) -> Result<u64, String> {
    let text = text.trim();
    let digits = !text.is_empty() && text.len() <= 16 && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<u64>() {
        Ok(cost) if digits && cost <= max => Ok(cost),
        _ => Err(format!("the cost must be a whole number from 0 to {max}, in digits")),
    }
}

/// The cost of a request by a limit's rule.
pub fn of(rule: &Cost, header: impl FnOnce(&str) -> Option<String>) -> Result<u64, String> {
    match rule.header.as_deref() {
        None => Ok(rule.default),
        Some(name) => match header(name) {
            None => Ok(rule.default),
            Some(text) => parse(&text, rule.max).map_err(|problem| format!("header {name}: {problem}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_pass() {
        for (text, cost) in [("0", 0), ("1", 1), (" 100 ", 100), ("007", 7)] {
            assert_eq!(parse(text, 100), Ok(cost), "{text}");
        }
    }

    #[test]
    fn anything_else_does_not() {
        for text in
            ["", " ", "-1", "+1", "1.0", "1e2", "NaN", "1e300", "3abc", "0x10", "101", "1 2", "٣", "Infinity"]
        {
            assert!(parse(text, 100).is_err(), "{text}");
        }
        assert!(parse("18446744073709551616", u64::MAX).is_err());
    }
}
