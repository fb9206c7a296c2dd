//! `network` of srt, which Claude Code's sandbox has too.

use serde_json::{Map, Value};

use super::Error;
use super::draft::Draft;
use super::keys::{Fate, Keys, from, join, list, switch, tell};

const NO_PROXY: Fate = Fate::Refused("a run has no network that a proxy could filter", None);
const MAC: Fate = Fate::Note("for macOS only");

const KEYS: &Keys = &[
    ("allowedDomains", Fate::Read),
    ("allowAllUnixSockets", Fate::Read),
    // There is no network at all.
    ("deniedDomains", Fate::Holds),
    ("deniedDomainReasons", Fate::Holds),
    ("deniedResolvedAddresses", Fate::Holds),
    ("strictAllowlist", Fate::Holds),
    ("allowManagedDomainsOnly", Fate::Holds),
    ("stripResponseHeaders", Fate::Holds),
    ("refuseOpaqueTunnels", Fate::Holds),
    ("requireHostMatch", Fate::Holds),
    ("ambiguousRequestTarget", Fate::Holds),
    ("allowPlaintextHeaderSet", Fate::Holds),
    ("allowUnixSockets", Fate::Note("for macOS only: it has no effect on Linux")),
    ("allowLocalBinding", Fate::Note("a run has a loopback of its own, which it can always use")),
    ("allowMachLookup", MAC),
    ("httpProxyPort", NO_PROXY),
    ("socksProxyPort", NO_PROXY),
    ("mitmProxy", NO_PROXY),
    ("parentProxy", NO_PROXY),
    ("tlsTerminate", NO_PROXY),
    ("filterRequest", NO_PROXY),
];

pub(super) const NO_LIST: &str = "there is no list of allowed hosts: the network is off";
pub(super) const WHOLE: &str = "`--network host` for a run that needs it, which is all of the host's network";
const SOCKETS: &str = "sockets that a run can see can be connected to";
const FIND: &str = "`stockade doctor` finds them; hide their directories";

/// Turns the network off, and says what else was asked for.
pub(super) fn read(network: &Map<String, Value>, prefix: &str, draft: &mut Draft) -> Result<(), Error> {
    tell(network, prefix, KEYS, draft);
    let key = join(prefix, "allowedDomains");
    let domains = list(network, prefix, "allowedDomains")?;
    let said = network.get("allowedDomains").map_or_else(|| format!("no {key}"), |value| from(&key, value));
    if !domains.is_empty() {
        draft.refuse(&said, NO_LIST, Some(WHOLE));
    }
    draft.network = Some(("none", said));
    match switch(network, prefix, "allowAllUnixSockets")? {
        Some(false) => draft.refuse(&format!("{}: false", join(prefix, "allowAllUnixSockets")), SOCKETS, Some(FIND)),
        Some(true) => {}
        None => draft.note(&format!("no {}", join(prefix, "allowAllUnixSockets")), format!("{SOCKETS}; {FIND}")),
    }
    Ok(())
}
