//! Bytes as text, without two of them becoming one.
//!
//! What clients send percent-encoded may be bytes that are no UTF-8. Reading each as U+FFFD, as is usual, would give
//! `caf%E8` and `caf%E9` one counter. Here such a byte becomes U+FFFD and its two hex digits; U+FFFD itself is written
//! the same way, byte by byte, so that no text can be sent that reads like another's.

use std::fmt::Write as _;

/// The text of these bytes: UTF-8 as it is, anything else as told above. Different bytes give different texts.
#[must_use]
pub fn to_text(bytes: Vec<u8>) -> String {
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains(char::REPLACEMENT_CHARACTER) => text,
        Ok(text) => spelled(text.as_bytes()),
        Err(error) => spelled(error.as_bytes()),
    }
}

fn spelled(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().saturating_mul(2));
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                char::REPLACEMENT_CHARACTER => escape(&mut text, &[0xEF, 0xBF, 0xBD]),
                _ => text.push(character),
            }
        }
        escape(&mut text, chunk.invalid());
    }
    text
}

fn escape(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{}{byte:02X}", char::REPLACEMENT_CHARACTER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_utf_8_keeps_its_bytes() {
        let rows: [(&[u8], &str); 6] = [
            (b"caf\xC3\xA9", "café"),
            (b"caf\xE9", "caf\u{fffd}E9"),
            (b"caf\xE8", "caf\u{fffd}E8"),
            (b"\xE2\x82", "\u{fffd}E2\u{fffd}82"),
            (b"\xEF\xBF\xBD", "\u{fffd}EF\u{fffd}BF\u{fffd}BD"),
            (b"\xEF\xBF\xBDE9", "\u{fffd}EF\u{fffd}BF\u{fffd}BDE9"),
        ];
        for (bytes, expected) in rows {
            assert_eq!(to_text(bytes.to_vec()), expected);
        }
    }
}
