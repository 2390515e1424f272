//! The address of a Redis, as users type it, without its password.

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

use crate::history::fnv1a;

/// Where a Redis is, and how to get in.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    info: ConnectionInfo,
    shown: String,
}

impl Address {
    /// Parses `redis://[USER@]HOST[:PORT][/DB]`, with `rediss` for TLS, or `redis+unix:///SOCKET`.
    ///
    /// # Errors
    /// What is wrong with the address, in words, which never contain the password of an address that has one.
    pub fn parse(text: &str, password: Option<&str>) -> Result<Self, &'static str> {
        const FORM: &str = "an address is redis://[USER@]HOST[:PORT][/DB], or rediss:// with TLS";
        let info = text.into_connection_info().map_err(|_| FORM)?;
        let settings = info.redis_settings();
        if settings.password().is_some() {
            return Err(
                "an address with a password can be read in the list of processes: leave the password out, and use \
                 --password-file FILE or TD_REDIS_PASSWORD",
            );
        }
        if matches!(info.addr(), ConnectionAddr::TcpTls { insecure: true, .. }) {
            return Err("the certificate of a Redis is always checked: leave #insecure out");
        }
        let settings = settings
            .clone()
            .set_lib_name("td-observe", env!("CARGO_PKG_VERSION"));
        let settings = match password {
            Some(password) => settings.set_password(password),
            None => settings,
        };
        Ok(Self {
            info: info.set_redis_settings(settings),
            shown: text.to_owned(),
        })
    }

    pub(super) fn info(&self) -> ConnectionInfo {
        self.info.clone()
    }

    /// Returns the address as it was typed.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Returns a name for what belongs to this address and prefix, for files.
    pub fn file_name(&self, prefix: &str) -> String {
        let place = format!("{:?} {}", self.info.addr(), self.info.redis_settings().db());
        format!("{:016x}", fnv1a(format!("{place} {prefix}").as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_belong_elsewhere() {
        for text in [
            "redis://h",
            "redis://ann@h:7000/3",
            "rediss://h",
            "redis+unix:///run/r.sock",
        ] {
            assert_eq!(Address::parse(text, None).unwrap().shown(), text);
        }
        for text in ["redis://:secret@h", "rediss://ann:secret@h/1"] {
            let why = Address::parse(text, Some("other")).unwrap_err();
            assert!(why.contains("--password-file") && !why.contains("secret"));
        }
        for text in [
            "",
            "h:6379",
            "http://h",
            "redis://h/x",
            "rediss://h/#insecure",
        ] {
            assert!(Address::parse(text, None).is_err(), "{text}");
        }
    }

    #[test]
    fn what_belongs_to_an_address_has_one_name_whoever_logs_in() {
        let name =
            |text: &str, prefix: &str| Address::parse(text, Some("x")).unwrap().file_name(prefix);
        assert_eq!(name("redis://h", "td"), name("redis://ann@h:6379/0", "td"));
        assert_ne!(name("redis://h", "td"), name("redis://h/1", "td"));
        assert_ne!(name("redis://h", "td"), name("redis://h", "te"));
    }
}
