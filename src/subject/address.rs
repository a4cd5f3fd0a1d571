//! The client's address in one canonical form, so that one client is one subject however its address is written.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address in a header's value, IPv4-mapped IPv6 as the IPv4 it is; zone and port are left out. `None` for
/// anything that is not one address.
pub fn parse(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(inside, _)| inside)?,
        None => match text.split_once(':') {
            // One colon only: an IPv4 address with a port.
            Some((address, port)) if !port.contains(':') => address,
            _ => text,
        },
    };
    let bare = bare.split_once('%').map_or(bare, |(address, _zone)| address);
    match bare.parse::<IpAddr>().ok()? {
        IpAddr::V6(address) => Some(unmapped(address)),
        address => Some(address),
    }
}

/// An IPv4-mapped address (`::ffff:0:0/96`, RFC 4291 section 2.5.5.2) as the IPv4 address that it holds.
fn unmapped(address: Ipv6Addr) -> IpAddr {
    match address.to_ipv4_mapped() {
        Some(address) => IpAddr::V4(address),
        None => IpAddr::V6(address),
    }
}

/// The text that an address is counted as: IPv4 whole, IPv6 by its first `ipv6_prefix` bits.
pub fn subject(address: IpAddr, ipv6_prefix: u8) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let kept = u32::from(ipv6_prefix).min(128);
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(kept)).unwrap_or(0);
            let network = Ipv6Addr::from(u128::from(address) & mask);
            if kept == 128 { network.to_string() } else { format!("{network}/{kept}") }
        }
    }
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
}
