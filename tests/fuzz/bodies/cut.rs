//! Divides a stream into pieces of random length.

/// Returns the stream in pieces of 1 to `cuts + 1` bytes; `cuts` is also the seed.
pub fn cut(stream: &[u8], cuts: u8) -> Vec<&[u8]> {
    let (mut state, mut rest, mut pieces) = (u32::from(cuts), stream, Vec::new());
    while !rest.is_empty() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let most = 1 + usize::from(cuts);
        let (piece, more) = rest.split_at((1 + (state >> 16) as usize % most).min(rest.len()));
        pieces.push(piece);
        rest = more;
    }
    pieces
}
