-- Is everybody in a table, and once? One line of differences, all 0 when it is so.
CREATE OR REPLACE TEMPORARY VIEW people USING parquet OPTIONS (path '${people}');
CREATE OR REPLACE TEMPORARY VIEW output USING parquet OPTIONS (path '${table}');

SELECT
  (SELECT count(*) FROM output) - (SELECT count(*) FROM people) AS rows_more,
  (SELECT count(*) - count(DISTINCT id) FROM output) AS twice,
  (SELECT count(*) FROM people ANTI JOIN output ON people.id = output.id) AS lost,
  (SELECT count(*) FROM output ANTI JOIN people ON output.id = people.id) AS unknown;
