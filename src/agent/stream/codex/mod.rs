//! Codex: what `codex exec --json` prints, and session rollouts (pure).

mod exec;
mod output;
mod rollout;

pub(super) use exec::Exec;
pub(super) use rollout::Rollout;
