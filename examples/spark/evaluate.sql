-- What does the quantized model do to these people? One record per person, for
-- cfq summarize and cfq gate --records. ${columns} are those of records, see README.md.
SET spark.sql.files.minPartitionNum = ${partitions};

CREATE OR REPLACE TEMPORARY VIEW people USING parquet OPTIONS (path '${people}');

INSERT OVERWRITE DIRECTORY '${records}' USING parquet
SELECT TRANSFORM (id, age, sex, dependants, income, savings, debt, amount, months, credit_grade,
                  years_employed, late_payments, employment, housing, guarantor)
  ROW FORMAT DELIMITED FIELDS TERMINATED BY '\t'
  USING 'CFQ_ORT_LIB=./libonnxruntime.so.1 ./cfq eval model.onnx model.q.onnx -t task.yaml -q --workers 1 --margins 0.1 --stream=tsv --columns id,age,sex,dependants,income,savings,debt,amount,months,credit_grade,years_employed,late_payments,employment,housing,guarantor'
  AS (${columns})
  ROW FORMAT DELIMITED FIELDS TERMINATED BY '\t'
FROM people;
