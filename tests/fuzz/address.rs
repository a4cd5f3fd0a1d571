//! Addresses: what reads as one, and what it is counted as.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sluicegate::subject::address::{WORKERS, named, parse, subject, worker_subject};

use crate::drive::each;
use crate::mutate::{Corpus, any_text};

const TOKENS: &[&str] = &[
    ":", "::", ".", "%", "[", "]", "]:80", ":80", ", ", ",", "%eth0", "::ffff:", "ffff", "0", "00", "256",
    "65536", " ",
];

/// Reads an address from the right: what stands last is taken off first.
fn oracle(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let port = |digits: &str| {
        (!digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit()))
            .then(|| digits.parse::<u16>().ok())
            .flatten()
    };
    let v6 = |text: &str| -> Option<IpAddr> {
        let address = match text.rsplit_once('%') {
            None => text,
            Some((address, zone)) => {
                let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~');
                (!zone.is_empty() && zone.chars().all(sound)).then_some(address)?
            }
        };
        let address: Ipv6Addr = address.parse().ok()?;
        let octets = address.octets();
        Some(match octets {
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d] => Ipv4Addr::new(a, b, c, d).into(),
            _ => address.into(),
        })
    };
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Some(address.into());
    }
    if let Some(inside) = text.strip_prefix('[') {
        if let Some(inside) = inside.strip_suffix(']') {
            return v6(inside);
        }
        let (inside, digits) = inside.rsplit_once(':')?;
        port(digits)?;
        return v6(inside.strip_suffix(']')?);
    }
    if let Some((address, digits)) = text.rsplit_once(':')
        && let Ok(address) = address.parse::<Ipv4Addr>()
    {
        return port(digits).map(|_| address.into());
    }
    v6(text)
}

#[test]
fn addresses() {
    let corpus = Corpus::lines(include_str!("corpus/addresses.txt"), TOKENS);
    each("addresses", 40_000, |random| {
        let text = corpus.text(random);
        let read = parse(&text);
        assert_eq!(read, oracle(&text), "{text:?}");
        let prefix = random.between(32, 128) as u8;
        assert_eq!(read, named(&text, prefix).map(|(address, _)| address));
        let Some(address) = read else { return };
        assert_eq!(address, address.to_canonical(), "{text:?} is mapped");
        assert_eq!(parse(&address.to_string()), Some(address), "{text:?}");
        let counted = subject(address, prefix);
        for spelling in spellings(address) {
            let again = parse(&spelling).unwrap_or_else(|| panic!("{spelling:?}"));
            assert_eq!(subject(again, prefix), counted, "{spelling:?}");
        }
        assert!(
            counted.bytes().all(|byte| byte.is_ascii_hexdigit() || b".:/".contains(&byte)),
            "{counted:?}"
        );
    });
}

/// Ways to write an address.
fn spellings(address: IpAddr) -> Vec<String> {
    match address {
        IpAddr::V4(v4) => {
            let mapped = v4.to_ipv6_mapped();
            let [high, low] = [mapped.segments()[6], mapped.segments()[7]];
            vec![
                format!("{v4}:1"),
                format!(" {mapped}"),
                format!("[{mapped}]:65535"),
                format!("::FFFF:{high:X}:{low:04x}"),
            ]
        }
        IpAddr::V6(v6) => {
            let groups: Vec<String> = v6.segments().iter().map(|group| format!("{group:04X}")).collect();
            vec![v6.to_string().to_uppercase(), groups.join(":"), format!("[{v6}]:443"), format!("{v6}%eth0")]
        }
    }
}

/// Two addresses are one subject if they agree in the leading bits that count, and only then.
#[test]
fn networks() {
    each("networks", 40_000, |random| {
        let prefix = random.between(32, 128) as u8;
        let bits = u128::from(random.next()) << 64 | u128::from(random.next());
        let one = if random.percent(10) { WORKERS } else { Ipv6Addr::from(bits) };
        let other = match random.between(0, 3) {
            0 => Ipv6Addr::from(u128::from(random.next()) << 64),
            // Neighbours: one bit apart.
            _ => Ipv6Addr::from(u128::from(one) ^ 1 << random.between(0, 127)),
        };
        let same =
            u128::from(one) >> (128 - u32::from(prefix)) == u128::from(other) >> (128 - u32::from(prefix));
        let workers = one == WORKERS || other == WORKERS;
        let (a, b) = (subject(one.into(), prefix), subject(other.into(), prefix));
        assert_eq!(a == b, if workers { one == other } else { same }, "{one} {other} /{prefix}");
        let v4 = Ipv4Addr::from(random.next() as u32);
        assert!(![a, b].contains(&subject(v4.into(), prefix)));
    });
}

#[test]
fn zones() {
    let corpus = Corpus::of(
        vec!["example.com", "a.workers.dev", "sub.example.co.uk", "x_y-z.test"],
        &[".", ":", "%", ",", "\n"],
    );
    each("zones", 10_000, |random| {
        let zone = if random.percent(10) { any_text(random, 300) } else { corpus.text(random) };
        let counted = worker_subject(Some(&zone));
        let rest = counted.strip_prefix("2a06:98c0:3600::103").unwrap_or_else(|| panic!("{counted:?}"));
        if let Some(kept) = rest.strip_prefix('%') {
            assert_eq!(kept, zone.trim().to_lowercase());
            assert!(kept.len() <= 253 && !kept.contains([':', '%', ',', '\n', ' ']), "{kept:?}");
            let written = format!("[2a06:98c0:3600::103%{zone}]:1");
            assert!(
                zone != zone.trim() || named(&written, 64).is_some_and(|(_, again)| again == counted),
                "{zone:?}"
            );
        } else {
            assert_eq!(rest, "", "{counted:?}");
        }
    });
}
