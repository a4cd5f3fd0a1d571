//! The client's address in one canonical form, so that one client is one subject however its address is written.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where Cloudflare says that a request comes from when the Worker of another zone made it, whoever that Worker serves:
/// one address for all of them (Cloudflare's Workers documentation, "Headers", under `CF-Connecting-IP`).
pub const WORKERS: Ipv6Addr = Ipv6Addr::new(0x2a06, 0x98c0, 0x3600, 0, 0, 0, 0, 0x103);

/// The address in a header's value, IPv4-mapped IPv6 as the IPv4 it is; zone and port are left out. `None` for
/// anything that is not one address: two of them, or one with anything behind it that is neither zone nor port.
pub fn parse(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    if let Some(rest) = text.strip_prefix('[') {
        let (inside, behind) = rest.split_once(']')?;
        let sound = behind.is_empty() || behind.strip_prefix(':').is_some_and(is_port);
        return if sound { v6(inside) } else { None };
    }
    match text.split_once(':') {
        None => text.parse().ok().map(IpAddr::V4),
        // One colon only: an IPv4 address with a port.
        Some((address, port)) if !port.contains(':') => {
            if is_port(port) {
                address.parse().ok().map(IpAddr::V4)
            } else {
                None
            }
        }
        Some(_) => v6(text),
    }
}

fn v6(text: &str) -> Option<IpAddr> {
    let address = match text.split_once('%') {
        Some((address, zone)) if is_zone(zone) => address,
        Some(_) => return None,
        None => text,
    };
    address.parse().ok().map(unmapped)
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

/// A zone (RFC 4007 section 11) that needs no quoting in a URI (RFC 6874).
fn is_zone(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
}

/// An IPv4-mapped address (`::ffff:0:0/96`, RFC 4291 section 2.5.5.2) as the IPv4 address that it holds.
fn unmapped(address: Ipv6Addr) -> IpAddr {
    match address.to_ipv4_mapped() {
        Some(address) => IpAddr::V4(address),
        None => IpAddr::V6(address),
    }
}

/// The text that an address is counted as: IPv4 whole, IPv6 by its first `ipv6_prefix` bits. The address of other
/// zones' Workers stands whole, apart from its network.
pub fn subject(address: IpAddr, ipv6_prefix: u8) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(WORKERS) => WORKERS.to_string(),
        IpAddr::V6(address) => {
            let kept = u32::from(ipv6_prefix).min(128);
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(kept)).unwrap_or(0);
            let network = Ipv6Addr::from(u128::from(address) & mask);
            if kept == 128 { network.to_string() } else { format!("{network}/{kept}") }
        }
    }
}

/// What the Worker of another zone is counted as: the address that all of them have, and its zone behind `%` in lower
/// case. Those whose zone is not said, or is no host name, are one subject, so that a made-up zone gains nothing.
pub fn worker_subject(zone: Option<&str>) -> String {
    let is_name = |zone: &&str| {
        (1..=253).contains(&zone.len())
            && zone.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'))
    };
    match zone.map(str::trim).filter(is_name) {
        Some(zone) => format!("{WORKERS}%{}", zone.to_ascii_lowercase()),
        None => WORKERS.to_string(),
    }
}

/// The address in a text and what it is counted as; of another zone's Worker, the zone of the text is its own.
pub fn named(text: &str, ipv6_prefix: u8) -> Option<(IpAddr, String)> {
    let address = parse(text)?;
    if address == IpAddr::V6(WORKERS) {
        let zone = text.trim().split_once('%').map(|(_, zone)| zone.split_once(']').map_or(zone, |z| z.0));
        return Some((address, worker_subject(zone)));
    }
    Some((address, subject(address, ipv6_prefix)))
}

/// Whether an address is a pseudo-IPv4 one (class E, 240.0.0.0/4), which Cloudflare makes up for IPv6 clients.
pub fn is_pseudo_ipv4(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(address) if address != Ipv4Addr::BROADCAST && address.octets().first().is_some_and(|first| *first >= 240))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(text: &str) -> Option<String> {
        parse(text).map(|address| subject(address, 64))
    }

    #[test]
    fn one_client_is_one_subject() {
        for (text, expected) in [
            ("1.2.3.4", "1.2.3.4"),
            (" 1.2.3.4 ", "1.2.3.4"),
            ("1.2.3.4:8080", "1.2.3.4"),
            ("::ffff:1.2.3.4", "1.2.3.4"),
            ("[::ffff:102:304]:443", "1.2.3.4"),
            ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
            ("2001:DB8:1:2:aaaa::9", "2001:db8:1:2::/64"),
            ("[2001:db8:1:2::1]:443", "2001:db8:1:2::/64"),
            ("fe80::1%eth0", "fe80::/64"),
        ] {
            assert_eq!(counted(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn mapped_addresses_stay_apart() {
        // CVE-2026-30827: ::ffff:1.1.1.1 and ::ffff:8.8.8.8 fell into one /64.
        assert_ne!(counted("::ffff:1.1.1.1"), counted("::ffff:8.8.8.8"));
    }

    #[test]
    fn anything_else_is_no_address() {
        for text in ["", "unknown", "1.2.3", "1.2.3.4, 5.6.7.8", "01.2.3.4", "[::1", "::g", "1.2.3.4.5"] {
            assert_eq!(counted(text), None, "{text}");
        }
    }

    #[test]
    fn nothing_may_stand_behind_an_address_but_its_zone_and_port() {
        // A header that was sent twice reads as both values; the first alone would be the client's choice.
        for text in [
            "1.2.3.4:80, 5.6.7.8",
            "[2001:db8::1]:443, 5.6.7.8",
            "[2001:db8::1], 5.6.7.8",
            "[2001:db8::1]x",
            "2001:db8::1%eth0, 5.6.7.8",
            "2001:db8::1, 2001:db8::2",
            "1.2.3.4%eth0",
            "2001:db8::1%",
            "1.2.3.4:",
            "1.2.3.4:http",
            "1.2.3.4:+80",
            "1.2.3.4:65536",
            "[1.2.3.4]",
            "[::1%]:1",
        ] {
            assert_eq!(counted(text), None, "{text}");
        }
        assert_eq!(counted("[fe80::1%eth0]:443").as_deref(), Some("fe80::/64"));
    }

    #[test]
    fn other_zones_workers_are_apart_from_their_network_and_from_each_other() {
        for prefix in [32, 64, 128] {
            assert_eq!(subject(IpAddr::V6(WORKERS), prefix), "2a06:98c0:3600::103");
        }
        assert_eq!(counted("2a06:98c0:3600::104").as_deref(), Some("2a06:98c0:3600::/64"));
        for (zone, expected) in [
            (Some("Example.com"), "2a06:98c0:3600::103%example.com"),
            (Some("other.example"), "2a06:98c0:3600::103%other.example"),
            (None, "2a06:98c0:3600::103"),
            (Some(""), "2a06:98c0:3600::103"),
            (Some("a.example, b.example"), "2a06:98c0:3600::103"),
            (Some("a:b"), "2a06:98c0:3600::103"),
            (Some("a\nb"), "2a06:98c0:3600::103"),
            (Some(&"a".repeat(254)), "2a06:98c0:3600::103"),
        ] {
            assert_eq!(worker_subject(zone), expected, "{zone:?}");
        }
        let named = |text| named(text, 64).map(|(_, subject)| subject);
        for text in ["2a06:98c0:3600::103%Example.com", "[2a06:98c0:3600::103%example.com]:443"] {
            assert_eq!(named(text).as_deref(), Some("2a06:98c0:3600::103%example.com"), "{text}");
        }
        assert_eq!(named("2001:db8::1%eth0").as_deref(), Some("2001:db8::/64"));
    }
}
