-- What can these people change? Every partition of the table goes through a process of cfq.
-- People: a folder of Parquet files. Promises: the folder to write.

-- A partition costs one start of cfq, about 50 ms. Without a minimum Spark packs small files
-- into partitions of 128 MB, which may be fewer than there are cores.
SET spark.sql.files.minPartitionNum = ${partitions};

CREATE OR REPLACE TEMPORARY VIEW people USING parquet OPTIONS (path '${people}');

-- Spark joins fields by the delimiter and splits at it; it neither quotes nor escapes. Hence
-- tabs, not commas. NULL is written and read as \N.
INSERT OVERWRITE DIRECTORY '${promises}' USING parquet
SELECT TRANSFORM (id, age, sex, dependants, income, savings, debt, amount, months, credit_grade,
                  years_employed, late_payments, employment, housing, guarantor)
  ROW FORMAT DELIMITED FIELDS TERMINATED BY '\t'
  USING 'CFQ_ORT_LIB=./libonnxruntime.so.1 ./cfq recourse model.onnx -t task.yaml -q --workers 1 --stream=tsv --columns id,age,sex,dependants,income,savings,debt,amount,months,credit_grade,years_employed,late_payments,employment,housing,guarantor'
  AS (id BIGINT, status STRING, method STRING, cost STRING, margin STRING, before STRING, action STRING,
      age STRING, sex STRING, dependants STRING, income STRING, savings STRING, debt STRING, amount STRING,
      months STRING, credit_grade STRING, years_employed STRING, late_payments STRING, employment STRING,
      housing STRING, guarantor STRING)
  ROW FORMAT DELIMITED FIELDS TERMINATED BY '\t'
FROM people;
