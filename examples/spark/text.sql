-- Writes a table in the order of id as tab-separated lines: the same text that cfq reads and writes.
CREATE TEMPORARY VIEW source USING parquet OPTIONS (path '${table}');

INSERT OVERWRITE DIRECTORY '${text}' USING text
SELECT TRANSFORM (*) ROW FORMAT DELIMITED FIELDS TERMINATED BY '\t'
  USING 'cat' AS (line STRING) ROW FORMAT DELIMITED FIELDS TERMINATED BY '\u0001'
FROM (SELECT * FROM source ORDER BY id);
