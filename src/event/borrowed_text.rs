//! Texts in JSON that are borrowed from the input where possible.

use std::borrow::Cow;

use serde::Deserialize;

/// A key or a name, borrowed from the input where possible.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct BorrowedText<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);
