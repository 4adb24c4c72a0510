-- The people of the demonstration: ${number} applicants, made from those of testdata/loans
-- by varying income, savings, debt and amount by a hash of the id. Always the same people.
CREATE TEMPORARY VIEW sample USING csv OPTIONS (path '${sample}', header true);

INSERT OVERWRITE DIRECTORY '${people}' USING parquet
SELECT /*+ BROADCAST(base) */
  id, age, sex, dependants,
  CAST(greatest(income + 100 * (pmod(hash(id, 1), 101) - 50), 0) AS INT) AS income,
  CAST(greatest(savings + 50 * (pmod(hash(id, 2), 61) - 30), 0) AS INT) AS savings,
  CAST(greatest(debt + 50 * (pmod(hash(id, 3), 61) - 30), 0) AS INT) AS debt,
  CAST(least(greatest(amount + 500 * (pmod(hash(id, 4), 9) - 4), 1000), 60000) AS INT) AS amount,
  months, credit_grade, years_employed, late_payments, employment, housing, guarantor
FROM range(0, ${number}, 1, ${partitions})
JOIN (SELECT *, row_number() OVER (ORDER BY age, income, savings, debt, amount, months, years_employed) - 1 AS base_id
      FROM sample) AS base
  ON id % (SELECT count(*) FROM sample) = base_id;
