//! Networks of addresses, as exemptions name them.

use std::fmt;
use std::net::IpAddr;

use super::error::Wrong;

/// A network: an address and how many of its leading bits count.
///
/// An IPv4 address mapped into IPv6 (`::ffff:10.0.0.1`) is the IPv4 address, here and in [`contains`]: which
/// socket a client came through does not change who it is. So `::/0` holds every IPv6 address and no IPv4 one.
///
/// [`contains`]: Network::contains
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// Reads `10.0.0.0/8`, `2001:db8::/32` or one address.
    ///
    /// # Errors
    /// No address, no prefix length, or bits set behind the prefix (the message says which network was meant).
    pub fn parse(text: &str) -> Result<Self, Wrong> {
        let no_network = || {
            Wrong::new(
                format!("\"{text}\" is not an address or a network"),
                "write one such as \"192.0.2.7\", \"10.0.0.0/8\" or \"2001:db8::/32\"",
            )
        };
        let (address, prefix) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
        let written: IpAddr = address.parse().map_err(|_| no_network())?;
        let widest = width(written);
        let prefix = match prefix {
            None => widest,
            // Not only `parse`: that takes `+8` and `08`.
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) && !padded(digits) => {
                digits.parse().ok().filter(|bits| *bits <= widest).ok_or_else(|| {
                    let cure = format!("write at most /{widest}");
                    Wrong::new(format!("\"{text}\" has more bits than the address"), cure)
                })?
            }
            Some(_) => return Err(no_network()),
        };
        if masked(written, prefix) != written {
            let meant = Self { address: masked(written, prefix), prefix };
            return Err(Wrong::new(
                format!("\"{text}\" has bits set behind the prefix"),
                format!("write \"{meant}\", or \"{written}\" for the one address"),
            ));
        }
        let address = written.to_canonical();
        // ::ffff:0:0/96 is where IPv4 begins.
        let mapped = widest.saturating_sub(width(address));
        Ok(Self { address, prefix: prefix.saturating_sub(mapped) })
    }

    /// Whether the address lies in the network.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        width(address) == width(self.address) && masked(address, self.prefix) == self.address
    }
}

impl fmt::Display for Network {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.address, self.prefix)
    }
}

fn padded(digits: &str) -> bool {
    digits.len() > 1 && digits.starts_with('0')
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address with every bit behind the prefix cleared.
fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    let cleared = u32::from(width(address).saturating_sub(prefix));
    match address {
        IpAddr::V4(v4) => IpAddr::V4((v4.to_bits() & u32::MAX.checked_shl(cleared).unwrap_or(0)).into()),
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & u128::MAX.checked_shl(cleared).unwrap_or(0)).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members() {
        let rows = [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("10.0.0.0/8", "::10.1.2.3", false),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.8", false),
            ("0.0.0.0/0", "255.255.255.255", true),
            ("0.0.0.0/0", "::1", false),
            ("2001:db8::/33", "2001:db8:7fff::1", true),
            ("2001:db8::/33", "2001:db8:8000::1", false),
            ("2001:db8::1", "2001:db8:0::1", true),
            ("::/0", "2001:db8::1", true),
            ("::/0", "10.0.0.1", false),
            ("::ffff:10.0.0.0/104", "10.1.2.3", true),
            ("::ffff:10.0.0.0/104", "11.1.2.3", false),
            ("::ffff:0:0/96", "192.0.2.1", true),
        ];
        for (network, address, inside) in rows {
            let network = Network::parse(network).unwrap();
            assert_eq!(network.contains(address.parse().unwrap()), inside, "{address} in {network}");
        }
    }

    #[test]
    fn bits_behind_the_prefix_name_the_network_that_was_meant() {
        let rows = [
            ("10.0.0.1/8", "\"10.0.0.0/8\""),
            ("2001:db8::1/64", "\"2001:db8::/64\""),
            ("::ffff:10.0.0.1/104", "\"::ffff:10.0.0.0/104\""),
            ("1.2.3.4/0", "\"0.0.0.0/0\""),
        ];
        for (text, meant) in rows {
            let wrong = Network::parse(text).unwrap_err();
            assert!(wrong.cure.contains(meant), "{text}: {}", wrong.cure);
        }
    }

    #[test]
    fn not_networks() {
        for text in ["", "10.0.0", "10.0.0.0/", "10.0.0.0/33", "::/129", "10.0.0.0/+8", "10.0.0.0/08", "a/8"]
        {
            assert!(Network::parse(text).is_err(), "{text}");
        }
        for text in ["10.0.0.0/8/8", " 10.0.0.0", "fe80::1%eth0", "010.0.0.0", "[::1]"] {
            assert!(Network::parse(text).is_err(), "{text}");
        }
    }
}
