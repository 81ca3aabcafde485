//! Files that are compressed, as a whole or inside.

use std::io::Write;

use bytes::Bytes;
use datafusion::arrow::ipc::CompressionType;
use datafusion::arrow::ipc::writer::{FileWriter, IpcWriteOptions};
use datafusion::arrow_avro::compression::CompressionCodec;
use datafusion::arrow_avro::writer::WriterBuilder;
use datafusion::arrow_avro::writer::format::AvroOcfFormat;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use futures::{StreamExt, TryStreamExt, stream};

use crate::common::{Fixture, modes};

const COMPRESSIONS: [(&str, &str, FileCompressionType); 4] = [
    ("gz", "gzip", FileCompressionType::GZIP),
    ("bz2", "bzip2", FileCompressionType::BZIP2),
    ("xz", "xz", FileCompressionType::XZ),
    ("zst", "zstd", FileCompressionType::ZSTD),
];

async fn compress(compression: FileCompressionType, text: &str) -> Vec<u8> {
    let text = Bytes::from(text.to_owned());
    let plain = stream::once(async move { Ok(text) }).boxed();
    let compressed = compression.convert_to_compress_stream(plain).unwrap();
    let chunks: Vec<Bytes> = compressed.try_collect().await.unwrap();
    chunks.concat()
}

#[tokio::test]
async fn a_file_is_decompressed_as_its_name_says() {
    for (mode, config) in modes().into_iter().enumerate() {
        for (stored_as, one, two) in [
            ("CSV", "id,name\n1,a\n", "id,name\n2,b\n"),
            ("TSV", "id\tname\n1\ta\n", "id\tname\n2\tb\n"),
            (
                "JSON",
                "{\"id\":1,\"name\":\"a\"}\n",
                "{\"id\":2,\"name\":\"b\"}\n",
            ),
        ] {
            let fixture = Fixture::with_config(config.clone());
            fixture.lake.put_text("t/p=0/plain.txt", two).await.unwrap();
            for (p, (extension, _, compression)) in (1..).zip(COMPRESSIONS) {
                let key = format!("t/p={p}/f.{extension}");
                let bytes = compress(compression, one).await;
                fixture.lake.put_bytes(&key, bytes).await.unwrap();
            }
            // Declared and inferred; the last partition is a compressed one.
            for columns in ["id BIGINT, name TEXT, p INT", ""] {
                fixture.declare(columns, stored_as, "p", "").await.unwrap();
                assert_eq!(
                    fixture.rows("SELECT p, id, name FROM t").await,
                    [
                        "0 | 2 | b",
                        "1 | 1 | a",
                        "2 | 1 | a",
                        "3 | 1 | a",
                        "4 | 1 | a"
                    ],
                    "{stored_as} in mode {mode}"
                );
                assert_eq!(fixture.rows("SELECT count(*) FROM t").await, ["5"]);
                assert_eq!(fixture.rows("SELECT name FROM t WHERE p = 3").await, ["a"]);
            }
        }
    }
}

#[tokio::test]
async fn the_option_compression_decides_for_all_files() {
    for (_, option, compression) in COMPRESSIONS {
        let fixture = Fixture::new();
        let bytes = compress(compression, "name,id\na,1\n").await;
        fixture.lake.put_bytes("t/p=1/f.csv", bytes).await.unwrap();
        let option = format!("'compression' '{option}'");
        for columns in ["id BIGINT, name TEXT, p INT", ""] {
            fixture.declare(columns, "CSV", "p", &option).await.unwrap();
            assert_eq!(
                fixture.rows("SELECT id, name, p FROM t").await,
                ["1 | a | 1"]
            );
        }
    }
    // Also when it says that a file is not compressed, whatever its name.
    let fixture = Fixture::new();
    fixture
        .lake
        .put_text("t/p=1/f.gz", "id\n1\n")
        .await
        .unwrap();
    fixture
        .declare(
            "id BIGINT, p INT",
            "CSV",
            "p",
            "'compression' 'uncompressed'",
        )
        .await
        .unwrap();
    assert_eq!(fixture.rows("SELECT id, p FROM t").await, ["1 | 1"]);
}

#[tokio::test]
async fn all_parts_of_a_compressed_file_are_read() {
    for local in [false, true] {
        for (extension, _, compression) in COMPRESSIONS {
            let mut bytes = compress(compression, "id\n1\n").await;
            bytes.extend(compress(compression, "2\n3\n").await);
            let fixture = Fixture::new();
            let dir = tempfile::tempdir().unwrap();
            let location = match local {
                false => {
                    let key = format!("t/p=1/f.csv.{extension}");
                    fixture.lake.put_bytes(&key, bytes).await.unwrap();
                    fixture.lake.location("t/")
                }
                true => {
                    std::fs::create_dir(dir.path().join("p=1")).unwrap();
                    let path = dir.path().join(format!("p=1/f.csv.{extension}"));
                    std::fs::File::create(path)
                        .unwrap()
                        .write_all(&bytes)
                        .unwrap();
                    format!("{}/", dir.path().display())
                }
            };
            let sql = format!(
                "CREATE EXTERNAL TABLE t (id BIGINT, p INT) STORED AS CSV PARTITIONED BY (p) \
                 LOCATION '{location}' OPTIONS ('connector' 'filesystem')"
            );
            fixture.run(&sql).await.unwrap();
            assert_eq!(
                fixture.rows("SELECT id FROM t").await,
                ["1", "2", "3"],
                "{extension}, local: {local}"
            );
        }
    }
}

#[tokio::test]
async fn compression_inside_of_arrow_and_avro_files() {
    let fixture = Fixture::new();
    let rows = "SELECT value AS id, arrow_cast(concat('n', value), 'Utf8') AS name \
                FROM generate_series(1, 4)";
    let batch = fixture.run(rows).await.unwrap().remove(0);
    let schema = batch.schema();
    let check = async |bytes: Vec<u8>, stored_as: &str| {
        let stored = fixture.lake.put_bytes("t/p=1/f", bytes);
        stored.await.unwrap();
        let columns = "id BIGINT, name TEXT, p INT";
        let declared = fixture.declare(columns, stored_as, "p", "");
        declared.await.unwrap();
        let sql = "SELECT sum(id), max(name) FROM t";
        assert_eq!(fixture.rows(sql).await, ["10 | n4"], "{stored_as}");
    };
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let options = IpcWriteOptions::default()
            .try_with_compression(Some(codec))
            .unwrap();
        let mut writer = FileWriter::try_new_with_options(vec![], &schema, options).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        check(writer.into_inner().unwrap(), "ARROW").await;
    }
    for codec in [
        CompressionCodec::Deflate,
        CompressionCodec::Snappy,
        CompressionCodec::ZStandard,
    ] {
        let mut writer = WriterBuilder::new(schema.as_ref().clone())
            .with_compression(Some(codec))
            .build::<_, AvroOcfFormat>(vec![])
            .unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        check(writer.into_inner(), "AVRO").await;
    }
}
