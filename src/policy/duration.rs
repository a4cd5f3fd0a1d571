//! Durations as the policy writes them: one number and one unit.

use super::error::Wrong;

/// Units and their length in milliseconds, longest first: [`to_text`] takes the first that divides.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Milliseconds of a text such as `150ms`, `1s`, `1m`, `1h` or `1d`.
///
/// # Errors
/// Anything else: fractions, signs, spaces, several units, more than `u64` holds.
pub fn parse(text: &str) -> Result<u64, Wrong> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits).unwrap_or((text, ""));
    let length = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, length)| *length);
    number.parse::<u64>().ok().zip(length).and_then(|(number, length)| number.checked_mul(length)).ok_or_else(
        || {
            Wrong::new(
                format!("\"{text}\" is not a duration"),
                "write one whole number and one unit of ms, s, m, h or d, such as \"150ms\" or \"1m\"",
            )
        },
    )
}

/// The shortest exact spelling: 60000 is `1m`, 90000 is `90s`, 1500 is `1500ms`.
///
/// It stands in messages and in store keys, so a window has one spelling however the policy wrote it.
#[must_use]
pub fn to_text(ms: u64) -> String {
    if ms == 0 {
        return "0s".to_owned();
    }
    let whole = UNITS.iter().find_map(|(name, length)| {
        ms.is_multiple_of(*length).then(|| ms.checked_div(*length).map(|number| format!("{number}{name}")))?
    });
    whole.unwrap_or_else(|| format!("{ms}ms"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_milliseconds() {
        let rows = [
            ("150ms", 150, "150ms"),
            ("0s", 0, "0s"),
            ("0ms", 0, "0s"),
            ("1s", 1_000, "1s"),
            ("1500ms", 1_500, "1500ms"),
            ("60s", 60_000, "1m"),
            ("90s", 90_000, "90s"),
            ("60m", 3_600_000, "1h"),
            ("24h", 86_400_000, "1d"),
            ("400d", 34_560_000_000, "400d"),
        ];
        for (text, ms, shortest) in rows {
            assert_eq!(parse(text), Ok(ms), "{text}");
            assert_eq!(to_text(ms), shortest, "{text}");
        }
    }

    #[test]
    fn not_durations() {
        for text in ["", "5", "s", "1 s", " 1s", "1s ", "1.5s", "-1s", "+1s", "1m30s", "1S", "1w", "1µs"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("18446744073709551615d").is_err());
        assert!(parse("18446744073709551616ms").is_err());
    }
}
