//! What the configuration says of hosts.

use std::collections::BTreeMap;

/// The name of this host.
pub(in crate::cli) const LOCAL: &str = "local";

/// What the configuration says of hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct HostSettings {
    /// The hosts that are read without `--host`.
    pub standing: Vec<String>,
    /// The program on each host.
    pub programs: BTreeMap<String, String>,
}
