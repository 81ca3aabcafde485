//! Files that are compressed as a whole, such as `part-0.csv.gz`.
//!
//! | file name ends with | read as |
//! |---|---|
//! | `.gz` | gzip |
//! | `.bz2` | bzip2 |
//! | `.xz` | xz |
//! | `.zst` | zstd |
//! | anything else | not compressed |
//!
//! With the option `compression` all files are read as it says, whatever their names. Only text formats
//! are compressed as a whole: Parquet, Arrow and Avro compress inside of their files.

use std::io::{Cursor, Read};

use bytes::Bytes;
use datafusion::common::DataFusionError;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{GetResult, GetResultPayload};

/// The endings of names, in lower case.
const EXTENSIONS: [(&str, FileCompressionType); 4] = [
    (".gz", FileCompressionType::GZIP),
    (".bz2", FileCompressionType::BZIP2),
    (".xz", FileCompressionType::XZ),
    (".zst", FileCompressionType::ZSTD),
];

/// How much is decompressed at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// How the files of a table are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    /// As the name of each file says.
    ByExtension,
    /// All in the same way.
    All(FileCompressionType),
}

impl Compression {
    pub(crate) fn of(self, location: &Path) -> FileCompressionType {
        if let Self::All(compression) = self {
            return compression;
        }
        let name = location.filename().unwrap_or_default().to_ascii_lowercase();
        EXTENSIONS
            .iter()
            .find(|(extension, _)| name.ends_with(extension))
            .map_or(FileCompressionType::UNCOMPRESSED, |(_, found)| *found)
    }
}

/// The content of an object, decompressed as it is read.
///
/// A compressed file may consist of several parts, as parallel compressors write them. DataFusion's
/// streams read all of them for gzip only and stop after the first one otherwise; its readers read all.
/// So the other compressions go through a reader, for which an object is fetched as a whole first.
pub(crate) fn decompress(
    result: GetResult,
    compression: FileCompressionType,
) -> object_store::Result<GetResult> {
    if !compression.is_compressed() {
        return Ok(result);
    }
    let GetResult {
        payload,
        meta,
        range,
        attributes,
    } = result;
    let decompressed = match payload {
        GetResultPayload::File(file, _) => {
            chunks(compression.convert_read(file).map_err(store_error)?)
        }
        GetResultPayload::Stream(stream) if compression == FileCompressionType::GZIP => {
            let compressed = stream.map_err(DataFusionError::from).boxed();
            let decompressed = compression.convert_stream(compressed);
            decompressed
                .map_err(store_error)?
                .map_err(store_error)
                .boxed()
        }
        GetResultPayload::Stream(stream) => stream::once(async move {
            let compressed: Vec<Bytes> = stream.try_collect().await?;
            let reader = compression.convert_read(Cursor::new(compressed.concat()));
            Ok::<_, object_store::Error>(chunks(reader.map_err(store_error)?))
        })
        .try_flatten()
        .boxed(),
    };
    Ok(GetResult {
        payload: GetResultPayload::Stream(decompressed),
        meta,
        range,
        attributes,
    })
}

fn chunks(reader: Box<dyn Read + Send>) -> BoxStream<'static, object_store::Result<Bytes>> {
    stream::try_unfold(reader, |mut reader| async move {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        reader
            .by_ref()
            .take(CHUNK_BYTES as u64)
            .read_to_end(&mut chunk)
            .map_err(|error| store_error(error.into()))?;
        Ok((!chunk.is_empty()).then(|| (Bytes::from(chunk), reader)))
    })
    .boxed()
}

fn store_error(error: DataFusionError) -> object_store::Error {
    object_store::Error::Generic {
        store: "decompression",
        source: Box::new(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_extension_decides() {
        let of = |name: &str| Compression::ByExtension.of(&Path::from(name));
        assert_eq!(of("t/p=1/f.csv.gz"), FileCompressionType::GZIP);
        assert_eq!(of("t/p=1/F.CSV.GZ"), FileCompressionType::GZIP);
        assert_eq!(of("t/f.bz2"), FileCompressionType::BZIP2);
        assert_eq!(of("t/f.xz"), FileCompressionType::XZ);
        assert_eq!(of("t/f.zst"), FileCompressionType::ZSTD);
        assert_eq!(of("t/p=x.gz/f.csv"), FileCompressionType::UNCOMPRESSED);
        assert_eq!(of("t/f.gz.csv"), FileCompressionType::UNCOMPRESSED);
        assert_eq!(of("t/fgz"), FileCompressionType::UNCOMPRESSED);
    }
}
