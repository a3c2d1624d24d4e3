//! Compressed files: .gz and .zst, recognised from their first bytes.

#[cfg(feature = "compression")]
use std::io::BufReader;
use std::io::Read;

/// A function that decompresses a source.
pub(crate) type Decompress = fn(Box<dyn Read + Send>) -> std::io::Result<Box<dyn Read + Send>>;

/// The decompression for a file with these first bytes; `None` if it is not compressed.
pub(crate) fn of(start: &[u8]) -> Option<Decompress> {
    match start {
        [0x1f, 0x8b, ..] => Some(gzip),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(zstd),
        _ => None,
    }
}

/// Decompresses a .gz file.
#[cfg(feature = "compression")]
fn gzip(source: Box<dyn Read + Send>) -> std::io::Result<Box<dyn Read + Send>> {
    Ok(Box::new(flate2::read::MultiGzDecoder::new(BufReader::new(source))))
}

/// Decompresses a .zst file.
#[cfg(feature = "compression")]
fn zstd(source: Box<dyn Read + Send>) -> std::io::Result<Box<dyn Read + Send>> {
    let decoder = ruzstd::decoding::StreamingDecoder::new(BufReader::new(source));
    Ok(Box::new(decoder.map_err(|error| std::io::Error::other(error.to_string()))?))
}

#[cfg(not(feature = "compression"))]
fn gzip(_: Box<dyn Read + Send>) -> std::io::Result<Box<dyn Read + Send>> {
    Err(std::io::Error::other("a compressed file, and zhat was built without the feature `compression`"))
}

#[cfg(not(feature = "compression"))]
fn zstd(source: Box<dyn Read + Send>) -> std::io::Result<Box<dyn Read + Send>> {
    gzip(source)
}
