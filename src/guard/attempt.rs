//! A try to reach somebody where there is no network.
#![forbid(unsafe_code)]

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::SystemTime;

use crate::policy::Origin;

/// `AF_INET`, `AF_INET6`
const INET: u16 = 2;
const INET6: u16 = 10;
/// Where names are looked up (RFC 1035).
const DOMAIN: u16 = 53;

/// One address that a command tried to connect to, once or more often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub address: SocketAddr,
    /// Who says that there is no network.
    pub origin: Origin,
    /// The thread that tried first, as the supervisor's pid namespace numbers it, and its program.
    pub pid: i32,
    pub comm: Vec<u8>,
    /// When it tried first.
    pub time: SystemTime,
    /// How often it was tried.
    pub count: u64,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connect to {}: network is off ({})", self.address, self.origin)
    }
}

/// The lengths that `connect(2)` is called with for internet addresses: `sockaddr_in`, `sockaddr_in6`, and
/// `sockaddr_storage` of callers that do not look.
pub(super) const LENGTHS: [u32; 3] = [16, 28, 128];

/// The internet address in the first bytes of a `sockaddr`.
pub(super) fn destination(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(*bytes.first_chunk()?);
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    let ip = match family {
        INET => IpAddr::from(Ipv4Addr::from(*bytes.get(4..)?.first_chunk::<4>()?)),
        INET6 => IpAddr::from(Ipv6Addr::from(*bytes.get(8..)?.first_chunk::<16>()?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), port))
}

/// Does this need a network? Loopback does not, and the kernel takes the unspecified address for it (`ip(7)`). But a host
/// may have its resolver there, which a sandbox's own loopback has not: nobody inside may listen on that port.
pub(super) fn needs_network(address: SocketAddr) -> bool {
    let ip = address.ip();
    address.port() == DOMAIN || !(ip.is_loopback() || ip.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_the_kernel_does() {
        let v4 = [2, 0, 0x1f, 0x90, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(destination(&v4).expect("an address").to_string(), "192.0.2.1:8080");
        assert_eq!(destination(&v4[..7]), None);
        assert_eq!(destination(&[1, 0, b'/', b'x', 0, 0, 0, 0]), None);
        let mut v6 = [0; 28];
        (v6[0], v6[3], v6[8], v6[23]) = (10, 53, 0xfd, 1);
        assert_eq!(destination(&v6).expect("an address").to_string(), "[fd00::1]:53");
        assert_eq!(destination(&v6[..20]), None);
    }

    #[test]
    fn loopback_needs_no_network_but_for_a_resolver() {
        let needs = |text: &str| needs_network(text.parse().expect("an address"));
        for near in ["127.0.0.1:80", "127.8.0.1:1", "[::1]:443", "0.0.0.0:80", "[::]:80"] {
            assert!(!needs(near), "{near}");
        }
        for far in ["192.0.2.1:80", "[2001:db8::1]:80", "127.0.0.53:53", "[::1]:53", "10.0.0.1:53"] {
            assert!(needs(far), "{far}");
        }
    }
}
