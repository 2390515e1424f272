//! The arguments of what speaks with a Redis.

use std::path::PathBuf;

use clap::ValueHint;

use super::failure::Failure;
use super::private_file::private_line;
use crate::hosts::redis::{Address, Keys, PREFIX};

/// The environment variable with the password.
const PASSWORD: &str = "TD_REDIS_PASSWORD";

/// How to get into a Redis, and what belongs to td-observe there.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct TypedRedis {
    /// The beginning of the keys in Redis
    #[arg(long, value_name = "TEXT", default_value = PREFIX)]
    pub stream_prefix: String,
    /// A file with the password of Redis, which only you can read [default: $TD_REDIS_PASSWORD]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub password_file: Option<PathBuf>,
}

impl TypedRedis {
    /// Returns the address that was typed as the value of an option, with the password.
    pub fn address(&self, option: &str, typed: &str) -> Result<Address, Failure> {
        let password = match &self.password_file {
            Some(path) => Some(private_line(path).map_err(|why| usage!("--password-file: {why}"))?),
            None => std::env::var(PASSWORD)
                .ok()
                .filter(|password| !password.is_empty()),
        };
        // The address is not repeated, because it may have a password.
        Address::parse(typed, password.as_deref()).map_err(|why| usage!("{option}: {why}"))
    }

    pub fn keys(&self) -> Result<Keys, Failure> {
        let keys = self.stream_prefix.parse();
        keys.map_err(|why| usage!("--stream-prefix {:?}: {why}", self.stream_prefix))
    }
}
