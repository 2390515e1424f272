//! Names of hosts, and the ids that begin with them (pure).

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::event::ExecutionId;

/// The longest name of a host: that of DNS, and a user.
const NAME_MAX: usize = 320;

/// The separator between a host and an id of it, which no name of a host contains.
const SEPARATOR: char = '/';

/// The name of a host, as ssh knows it. Cheap to clone.
///
/// It is passed to ssh as an argument, begins the ids of what the host has, and stands before the paths of its tmux
/// sockets, so it has neither a leading `-` nor a slash, a colon or a blank.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HostName(Arc<str>);

impl HostName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the id that an execution of this host has beside those of others.
    pub fn id(&self, execution: &str) -> ExecutionId {
        format!("{self}{SEPARATOR}{execution}").into()
    }

    /// Returns the id that the host itself knows, if an id is one of this host.
    pub fn strip<'a>(&self, id: &'a str) -> Option<&'a str> {
        id.strip_prefix(&*self.0)?.strip_prefix(SEPARATOR)
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for HostName {
    type Err = &'static str;

    /// Parses a name; the error says what it must look like.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_plain = |c: char| c.is_alphanumeric() || "._-@".contains(c);
        if text.starts_with('-') {
            Err("a host cannot begin with '-'")
        } else if text.is_empty() || text.len() > NAME_MAX || !text.chars().all(is_plain) {
            Err(
                "a host is a name of ~/.ssh/config, or [USER@]NAME of letters, digits, '.', '_' and '-'; a port or an \
                 address with colons belongs into ~/.ssh/config",
            )
        } else {
            Ok(Self(text.into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_ssh_takes_as_a_host() {
        for name in ["a", "web-1.example.org", "ann@build_2", "büro"] {
            assert_eq!(name.parse::<HostName>().unwrap().as_str(), name);
        }
        let long = "a".repeat(NAME_MAX + 1);
        for name in [
            "",
            "-oProxyCommand=touch x",
            "-a",
            "a b",
            "a/b",
            "a:22",
            "::1",
            "$(touch x)",
            "a;b",
            "a\n",
            "a'b",
            "*",
            &long,
        ] {
            assert!(name.parse::<HostName>().is_err(), "{name:?}");
        }
    }

    #[test]
    fn an_id_tells_its_host() {
        let host: HostName = "web".parse().unwrap();
        let id = host.id("a/b@1");
        assert_eq!(id.as_str(), "web/a/b@1");
        assert_eq!(host.strip(&id), Some("a/b@1"));
        for other in ["webs/a", "web", "a/web/b", ""] {
            assert_eq!(host.strip(other), None, "{other:?}");
        }
    }
}
