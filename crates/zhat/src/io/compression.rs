//! Compressed files, .gz and .zst: read by their first bytes, written by their ending.

use std::io::Read;
#[cfg(feature = "compression")]
use std::io::Write;
#[cfg(feature = "compression")]
use std::io::{BufRead, BufReader};
use std::path::Path;

#[cfg(feature = "compression")]
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
#[cfg(feature = "compression")]
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
#[cfg(feature = "compression")]
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::error::Result;

/// A function that decompresses a source.
pub(crate) type Decompress = fn(Box<dyn Read + Send>) -> std::io::Result<Box<dyn Read + Send>>;

/// The decompression for a file with these first bytes; `None` if it is not compressed.
pub(crate) fn of(start: &[u8]) -> Option<Decompress> {
    match start {
        [0x1f, 0x8b, ..] => Some(gzip),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(zstd),
        // A skippable frame, with which parallel compressors begin.
        [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(zstd),
        _ => None,
    }
}

/// The bytes of a file with this name: compressed if it ends in `.gz` or `.zst`. The same bytes give the same file.
///
/// # Errors
/// If the name ends so, and zhat was built without the feature `compression`.
pub fn compressed(path: &Path, bytes: Vec<u8>) -> Result<Vec<u8>> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("gz") => gzipped(&bytes).map_err(|source| crate::Error::io(path, source)),
        Some("zst") => zstandard(&bytes).map_err(|source| crate::Error::io(path, source)),
        _ => Ok(bytes),
    }
}

#[cfg(feature = "compression")]
fn gzipped(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(bytes)?;
    out.finish()
}

#[cfg(feature = "compression")]
fn zstandard(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    Ok(compress_to_vec(bytes, CompressionLevel::Fastest))
}

#[cfg(not(feature = "compression"))]
fn gzipped(_: &[u8]) -> std::io::Result<Vec<u8>> {
    Err(std::io::Error::other("needs a zhat that was built with the feature `compression`"))
}

#[cfg(not(feature = "compression"))]
fn zstandard(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    gzipped(bytes)
}

/// Decompresses a .gz file.
#[cfg(feature = "compression")]
fn gzip(source: Box<dyn Read + Send>) -> std::io::Result<Box<dyn Read + Send>> {
    Ok(Box::new(flate2::read::MultiGzDecoder::new(BufReader::new(source))))
}

/// Decompresses a .zst file.
#[cfg(feature = "compression")]
fn zstd(source: Box<dyn Read + Send>) -> std::io::Result<Box<dyn Read + Send>> {
    let (source, decoder) = (BufReader::new(source), FrameDecoder::new());
    Ok(Box::new(Frames { source, decoder, open: false }))
}

/// All frames of a .zst file; `cat` and parallel compressors write several.
#[cfg(feature = "compression")]
struct Frames {
    source: BufReader<Box<dyn Read + Send>>,
    decoder: FrameDecoder,
    /// Whether the decoder has a frame that is not read to its end.
    open: bool,
}

#[cfg(feature = "compression")]
impl Frames {
    /// Starts the next frame with data; false at the end of the file.
    fn next(&mut self) -> std::io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    let skipped =
                        std::io::copy(&mut self.source.by_ref().take(length), &mut std::io::sink())?;
                    if skipped < length {
                        return Err(std::io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(std::io::Error::other(error.to_string())),
            }
        }
        Ok(false)
    }
}

#[cfg(feature = "compression")]
impl Read for Frames {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.open {
                self.open = self.next()?;
                if !self.open {
                    return Ok(0);
                }
            }
            while self.decoder.can_collect() < out.len() && !self.decoder.is_finished() {
                let missing = out.len() - self.decoder.can_collect();
                let read =
                    self.decoder.decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBytes(missing));
                read.map_err(|error| std::io::Error::other(error.to_string()))?;
            }
            let count = self.decoder.read(out)?;
            if count > 0 {
                return Ok(count);
            }
            let (written, found) =
                (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum());
            if written.zip(found).is_some_and(|(written, found)| written != found) {
                return Err(std::io::Error::other("the checksum of the zstd frame does not fit its data"));
            }
            self.open = false;
        }
    }
}

#[cfg(not(feature = "compression"))]
fn gzip(_: Box<dyn Read + Send>) -> std::io::Result<Box<dyn Read + Send>> {
    Err(std::io::Error::other("a compressed file, and zhat was built without the feature `compression`"))
}

#[cfg(not(feature = "compression"))]
fn zstd(source: Box<dyn Read + Send>) -> std::io::Result<Box<dyn Read + Send>> {
    gzip(source)
}

#[cfg(all(test, feature = "compression"))]
mod tests {
    use std::io::Cursor;

    use super::*;

    const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

    /// A block header of RFC 8878: last, type, size.
    fn header(last: bool, kind: u32, size: usize) -> [u8; 3] {
        let [a, b, c, _] = (u32::from(last) | kind << 1 | (size as u32) << 3).to_le_bytes();
        [a, b, c]
    }

    /// A frame in one segment with the text as raw blocks, then `repeats` times one byte as a block of that kind.
    fn frame(text: &[u8], block: usize, repeats: usize) -> Vec<u8> {
        let mut made = [&MAGIC[..], &[0xa0], &((text.len() + repeats) as u32).to_le_bytes()].concat();
        for part in text.chunks(block) {
            made.extend(header(false, 0, part.len()));
            made.extend(part);
        }
        made.extend(header(true, 1, repeats));
        made.push(b'z');
        made
    }

    fn read(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        let decompress = of(bytes).ok_or(std::io::ErrorKind::InvalidData)?;
        let mut found = Vec::new();
        decompress(Box::new(Cursor::new(bytes.to_vec())))?.read_to_end(&mut found)?;
        Ok(found)
    }

    #[test]
    fn all_frames_of_a_zst_file_are_read() {
        let text: Vec<u8> = (0..300_000u64).map(|i| (i * i % 251) as u8).collect();
        let whole = [&text[..], &[b'z'; 9]].concat();
        for block in [1 << 17, 70_001] {
            assert!(read(&frame(&text, block, 9)).unwrap() == whole);
        }
        let skipped = [&[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        let empty = frame(b"", 1, 0);
        let file = [&skipped[..], &frame(b"one\n", 3, 0), &empty, &skipped, &frame(b"two\n", 9, 2), &skipped];
        assert_eq!(read(&file.concat()).unwrap(), b"one\ntwo\nzz");
        // In pieces of any size.
        let mut source = zstd(Box::new(Cursor::new(file.concat()))).unwrap();
        let mut found = Vec::new();
        let mut piece = [0; 3];
        loop {
            let count = source.read(&mut piece).unwrap();
            found.extend_from_slice(&piece[..count]);
            if count == 0 {
                break;
            }
        }
        assert_eq!(found, b"one\ntwo\nzz");
    }

    #[test]
    fn files_are_compressed_by_their_ending() {
        let random: Vec<u8> = (0..300_000u64).map(|i| (i * i % 65_521 * 7 % 251) as u8).collect();
        let texts = [Vec::new(), b"a word\n".to_vec(), b"the same line\n".repeat(50_000), random];
        for text in texts {
            for (name, start) in [("a.gz", &[0x1f, 0x8b][..]), ("a.b.zst", &MAGIC)] {
                let made = compressed(Path::new(name), text.clone()).unwrap();
                assert!(made.starts_with(start), "{name}");
                assert!(read(&made).unwrap() == text, "{name}, {} bytes", text.len());
                assert!(text.len() < 600_000 || made.len() < text.len() / 20, "{name}: {} bytes", made.len());
            }
            assert_eq!(compressed(Path::new("a.txt"), text.clone()).unwrap(), text);
        }
    }

    #[test]
    fn damaged_zst_files_are_errors() {
        let good = frame(b"some text", 4, 5);
        for length in 5..good.len() {
            assert!(read(&good[..length]).is_err(), "{length}");
        }
        assert!(read(&[&good[..], b"more"].concat()).is_err());
        assert!(read(&[&good[..], &[0x50, 0x2a, 0x4d, 0x18, 9, 0, 0, 0, 1]].concat()).is_err());
        // With a checksum.
        let with = |sum: [u8; 4]| [&MAGIC[..], &[0x24, 3], &header(true, 0, 3), b"abc", &sum].concat();
        assert_eq!(read(&with(CHECKSUM)).unwrap(), b"abc");
        assert!(read(&with([0, 1, 2, 3])).unwrap_err().to_string().contains("checksum"));
    }

    /// The lower four bytes of XXH64("abc") = 0x44bc2cf5ad770999.
    const CHECKSUM: [u8; 4] = 0xad77_0999u32.to_le_bytes();
}
