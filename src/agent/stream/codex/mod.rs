//! Codex: what `codex exec --json` prints, and session rollouts (pure).

mod exec;
mod output;
mod rollout;

pub(super) use exec::CodexExec;
pub(super) use rollout::CodexRollout;
