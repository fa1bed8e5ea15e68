// jdbc.java: the JDBC driver of PostgreSQL: prepared statements (from the fifth execution on server-side), batches, fetch size, generated
// keys, metadata, COPY, savepoints, cancels.
import java.io.FileWriter;
import java.io.PrintWriter;
import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.*;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import org.postgresql.PGConnection;
import org.postgresql.util.PGobject;

class Jdbc {
	static final boolean distributed = !System.getenv("RF_SERVER").isEmpty();
	static PrintWriter report;
	static Connection connection;

	interface Step { Object run() throws Exception; }

	static void line(String kind, String name, String text) {
		report.println(kind + "\t" + name + "\t" + text.replaceAll("\\s+", " "));
		report.flush();
	}

	static void step(String name, Step step) {
		String result;
		try {
			result = String.valueOf(step.run());
		} catch (Exception e) {
			e.printStackTrace();
			result = "error " + (e instanceof SQLException ? ((SQLException) e).getSQLState() : e.getClass().getName());
			if (!name.startsWith("refused_")) result += ": " + e.getMessage();
		}
		try {
			if (!connection.getAutoCommit()) connection.rollback();
			connection.setAutoCommit(true);
		} catch (SQLException e) {
			e.printStackTrace();
		}
		line("step", name, result);
	}

	static void own(String name, String sql) throws SQLException {
		if (!distributed) return;
		line("sql", name, sql);
		execute(sql);
	}

	static Connection connect(String... settings) throws SQLException {
		Properties properties = new Properties();
		properties.setProperty("user", System.getenv("PGUSER"));
		properties.setProperty("password", System.getenv("PGPASSWORD"));
		for (int i = 0; i < settings.length; i += 2) properties.setProperty(settings[i], settings[i + 1]);
		return DriverManager.getConnection("jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE"), properties);
	}

	static void execute(String sql) throws SQLException {
		try (Statement statement = connection.createStatement()) {
			statement.execute(sql);
		}
	}

	static List<String> rows(ResultSet result) throws SQLException {
		List<String> rows = new ArrayList<>();
		int columns = result.getMetaData().getColumnCount();
		while (result.next()) {
			StringBuilder row = new StringBuilder();
			for (int i = 1; i <= columns; i++) row.append(i > 1 ? "|" : "").append(result.getObject(i) instanceof byte[] ? Arrays.toString(result.getBytes(i)) : result.getString(i));
			rows.add(row.toString());
		}
		return rows;
	}

	static List<String> query(String sql, Object... values) throws SQLException {
		try (PreparedStatement statement = connection.prepareStatement(sql)) {
			for (int i = 0; i < values.length; i++) statement.setObject(i + 1, values[i]);
			return rows(statement.executeQuery());
		}
	}

	static int update(String sql, Object... values) throws SQLException {
		try (PreparedStatement statement = connection.prepareStatement(sql)) {
			for (int i = 0; i < values.length; i++) statement.setObject(i + 1, values[i]);
			return statement.executeUpdate();
		}
	}

	static void fill(PreparedStatement statement, int i) throws SQLException {
		statement.setInt(1, i % 50 + 1);
		statement.setInt(2, i);
		statement.setBigDecimal(3, BigDecimal.valueOf(i, 2));
		statement.setTimestamp(4, new Timestamp(1767225600000L + i * 60000L));
		statement.setBytes(5, i % 3 == 0 ? null : new byte[] {(byte) i, 0, -1});
		statement.setObject(6, i % 4 == 0 ? null : i * 1.5, Types.DOUBLE);
		statement.setBoolean(7, i % 2 == 0);
		PGobject json = new PGobject();
		json.setType("jsonb");
		json.setValue("{\"n\": " + i + "}");
		statement.setObject(8, json);
		statement.setArray(9, connection.createArrayOf("text", new String[] {"a" + i % 5, null, "it's"}));
	}

	static final String insert = "INSERT INTO readings (sensor, number, value, taken, raw, factor, good, detail, words) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";

	static Object batch(Connection into, int from, int to) throws SQLException {
		int sum = 0;
		into.setAutoCommit(false);
		try (PreparedStatement statement = into.prepareStatement(insert)) {
			for (int i = from; i < to; i++) {
				fill(statement, i);
				statement.addBatch();
			}
			for (int count : statement.executeBatch()) sum += count < 0 ? 1 : count;
		}
		into.commit();
		into.setAutoCommit(true);
		return sum;
	}

	public static void main(String[] arguments) throws Exception {
		report = new PrintWriter(new FileWriter(System.getenv("RF_STEPS"), true));
		connection = connect();

		step("create_tables", () -> {
			execute("CREATE TABLE sensors (id serial PRIMARY KEY, name varchar(40) NOT NULL, place text)");
			execute("CREATE TABLE readings (sensor int REFERENCES sensors, number int, value numeric(10, 2), taken timestamptz, raw bytea, factor float8, good boolean, "
				+ "detail jsonb, words text[], PRIMARY KEY (sensor, number))");
			return "";
		});
		step("distribute", () -> {
			own("distribute", "SELECT * FROM rdma.distribute_tables('nodes', '{sensors,readings}', '{id,sensor}')");
			return "";
		});
		step("generated_keys", () -> {
			List<String> keys = new ArrayList<>();
			try (PreparedStatement statement = connection.prepareStatement("INSERT INTO sensors (name) VALUES (?)", Statement.RETURN_GENERATED_KEYS)) {
				for (int i = 0; i < 50; i++) {
					statement.setString(1, "sensor " + i);
					statement.addBatch();
				}
				statement.executeBatch();
				keys.addAll(rows(statement.getGeneratedKeys()));
			}
			try (PreparedStatement statement = connection.prepareStatement("INSERT INTO sensors (name) VALUES ('one')", new String[] {"id"})) {
				statement.executeUpdate();
				keys.addAll(rows(statement.getGeneratedKeys()));
			}
			return keys;
		});
		step("batch", () -> batch(connection, 0, 2000));
		step("rewritten_batch", () -> {
			try (Connection rewriting = connect("reWriteBatchedInserts", "true")) {
				return batch(rewriting, 2000, 3000);
			}
		});
		step("count", () -> query("SELECT count(*), sum(value), min(taken), max(length(raw)), avg(factor) FROM readings"));
		step("prepared", () -> {
			List<String> found = new ArrayList<>();
			try (PreparedStatement statement = connection.prepareStatement("SELECT value, good, detail, words FROM readings WHERE sensor = ? AND number = ?")) {
				for (int i = 0; i < 20; i++) {
					statement.setInt(1, i % 50 + 1);
					statement.setInt(2, i);
					found.addAll(rows(statement.executeQuery()));
				}
			}
			return found;
		});
		step("prepared_join", () -> {
			List<String> found = new ArrayList<>();
			try (PreparedStatement statement = connection.prepareStatement(
					"SELECT s.name, count(*), sum(r.value) FROM sensors s JOIN readings r ON r.sensor = s.id WHERE r.taken < ? AND s.name LIKE ? GROUP BY s.name ORDER BY s.name")) {
				for (int i = 1; i < 12; i++) {
					statement.setTimestamp(1, new Timestamp(1767225600000L + i * 6000000L));
					statement.setString(2, "sensor " + i + "%");
					found.addAll(rows(statement.executeQuery()));
				}
			}
			return found;
		});
		step("types", () -> {
			try (PreparedStatement statement = connection.prepareStatement("SELECT * FROM readings WHERE number = ?")) {
				statement.setInt(1, 7);
				ResultSet result = statement.executeQuery();
				result.next();
				return List.of(result.getInt(1), result.getBigDecimal(3), result.getTimestamp(4).getTime(), Arrays.toString(result.getBytes(5)), result.getDouble(6),
					result.getBoolean(7), result.getObject(8), Arrays.toString((String[]) result.getArray(9).getArray()), result.getMetaData().getColumnTypeName(3),
					result.getMetaData().getPrecision(3), result.getMetaData().isAutoIncrement(1), result.getMetaData().getTableName(1));
			}
		});
		step("fetch_size", () -> {
			long sum = 0;
			int count = 0;
			connection.setAutoCommit(false);
			try (Statement outer = connection.createStatement(); Statement inner = connection.createStatement()) {
				outer.setFetchSize(64);
				inner.setFetchSize(7);
				ResultSet readings = outer.executeQuery("SELECT sensor, number FROM readings");
				ResultSet sensors = inner.executeQuery("SELECT id FROM sensors ORDER BY id");
				while (readings.next()) {
					sum += readings.getInt(2);
					if (count++ % 50 == 0) sum += sensors.next() ? sensors.getInt(1) : 0;
				}
			}
			connection.commit();
			return List.of(count, sum);
		});
		step("fetch_size_and_writes", () -> {
			int count = 0;
			connection.setAutoCommit(false);
			try (Statement statement = connection.createStatement();
					PreparedStatement change = connection.prepareStatement("UPDATE readings SET value = value + 1 WHERE sensor = ? AND number = ?")) {
				statement.setFetchSize(10);
				ResultSet result = statement.executeQuery("SELECT sensor, number FROM readings WHERE number < 100");
				while (result.next()) {
					change.setInt(1, result.getInt(1));
					change.setInt(2, result.getInt(2));
					count += change.executeUpdate();
				}
			}
			connection.commit();
			return List.of(count, query("SELECT sum(value) FROM readings"));
		});
		step("scroll", () -> {
			try (Statement statement = connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_READ_ONLY)) {
				ResultSet result = statement.executeQuery("SELECT number FROM readings ORDER BY number");
				result.last();
				int last = result.getInt(1);
				result.absolute(17);
				return List.of(last, result.getInt(1), result.previous(), result.getInt(1));
			}
		});
		step("max_rows", () -> {
			try (Statement statement = connection.createStatement()) {
				statement.setMaxRows(5);
				return rows(statement.executeQuery("SELECT number FROM readings ORDER BY number DESC"));
			}
		});
		step("upsert", () -> {
			int changed = 0;
			for (int i = 0; i < 8; i++) changed += update("INSERT INTO readings (sensor, number, value) VALUES (?, ?, ?) ON CONFLICT (sensor, number) DO UPDATE SET value = excluded.value", i + 1,
				i < 4 ? i : 5000 + i, BigDecimal.TEN);
			return List.of(changed, query("SELECT sensor, number, value FROM readings WHERE value = 10 ORDER BY 1, 2"));
		});
		step("update_returning", () -> query("UPDATE readings SET good = NOT good WHERE sensor = ? AND number < 200 RETURNING number, good", 3).size());
		step("update_by_join", () -> update("UPDATE readings r SET factor = 9 FROM sensors s WHERE s.id = r.sensor AND s.name = ?", "sensor 9"));
		step("update_batch", () -> {
			try (PreparedStatement statement = connection.prepareStatement("UPDATE readings SET factor = ? WHERE sensor = ? AND number = ?")) {
				for (int i = 100; i < 200; i++) {
					statement.setDouble(1, i);
					statement.setInt(2, i % 50 + 1);
					statement.setInt(3, i);
					statement.addBatch();
				}
				return Arrays.stream(statement.executeBatch()).sum();
			}
		});
		step("savepoints", () -> {
			connection.setAutoCommit(false);
			update("UPDATE sensors SET place = 'roof' WHERE id = ?", 1);
			Savepoint savepoint = connection.setSavepoint("s");
			String state = "";
			try {
				update("INSERT INTO sensors (id, name) VALUES (1, 'twice')");
			} catch (SQLException e) {
				state = e.getSQLState();
				connection.rollback(savepoint);
			}
			update("UPDATE sensors SET place = 'cellar' WHERE id = ?", 2);
			connection.commit();
			return List.of(state, query("SELECT id, place FROM sensors WHERE place IS NOT NULL ORDER BY id"));
		});
		step("isolation", () -> {
			connection.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
			connection.setReadOnly(true);
			connection.setAutoCommit(false);
			List<String> found = query("SELECT count(*) FROM readings JOIN sensors ON id = sensor");
			connection.commit();
			connection.setReadOnly(false);
			connection.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
			return found;
		});
		step("refused_read_only", () -> {
			connection.setReadOnly(true);
			try {
				return update("DELETE FROM readings");
			} finally {
				connection.setReadOnly(false);
			}
		});
		step("refused_sensor", () -> update("INSERT INTO readings (sensor, number) VALUES (4711, 1)"));
		step("refused_null", () -> update("INSERT INTO sensors (name) VALUES (NULL)"));
		step("error_fields", () -> {
			try {
				return update("INSERT INTO sensors (id, name) VALUES (1, 'twice')");
			} catch (org.postgresql.util.PSQLException e) {
				return List.of(e.getServerErrorMessage().getConstraint(), e.getServerErrorMessage().getTable(), e.getSQLState());
			}
		});
		step("failed_batch", () -> {
			try (PreparedStatement statement = connection.prepareStatement("INSERT INTO sensors (id, name) VALUES (?, 'batch')")) {
				for (int id : new int[] {1001, 1002, 1, 1003}) {
					statement.setInt(1, id);
					statement.addBatch();
				}
				statement.executeBatch();
				return "";
			} catch (BatchUpdateException e) {
				return List.of(e.getSQLState(), query("SELECT count(*) FROM sensors WHERE name = 'batch'"));
			}
		});
		step("timeout", () -> {
			try (Statement statement = connection.createStatement()) {
				statement.setQueryTimeout(1);
				return rows(statement.executeQuery("SELECT count(*) FROM readings a, readings b, readings c, readings d WHERE a.value + b.value + c.value < d.value"));
			} catch (SQLException e) {
				return List.of(e.getSQLState(), query("SELECT count(*) FROM sensors"));
			}
		});
		step("copy_in", () -> {
			PGConnection own = connection.unwrap(PGConnection.class);
			StringBuilder text = new StringBuilder();
			for (int i = 6000; i < 6500; i++) text.append(i % 50 + 1).append(',').append(i).append(",1.25\n");
			return List.of(own.getCopyAPI().copyIn("COPY readings (sensor, number, value) FROM STDIN (FORMAT csv)", new StringReader(text.toString())),
				query("SELECT sum(value) FROM readings WHERE number BETWEEN 6000 AND 6499"));
		});
		step("copy_out", () -> {
			StringWriter text = new StringWriter();
			long count = connection.unwrap(PGConnection.class).getCopyAPI().copyOut("COPY readings TO STDOUT (FORMAT csv)", text);
			return List.of(count, Arrays.stream(text.toString().split("\n")).sorted().toList().hashCode());
		});
		step("migration", () -> {
			execute("ALTER TABLE readings ADD COLUMN unit text NOT NULL DEFAULT 'm'");
			execute("ALTER TABLE readings ALTER COLUMN value TYPE float8 USING value::float8");
			execute("CREATE INDEX by_time ON readings (taken)");
			execute("ALTER TABLE sensors RENAME COLUMN place TO location");
			return query("SELECT unit, count(*), round(sum(value)::numeric, 2) FROM readings GROUP BY unit");
		});
		step("updatable_rows", () -> {
			try (Statement statement = connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE)) {
				ResultSet result = statement.executeQuery("SELECT id, name, location FROM sensors WHERE id = 4");
				result.next();
				result.updateString(3, "garden");
				result.updateRow();
				return query("SELECT location FROM sensors WHERE id = 4");
			}
		});
		DatabaseMetaData data = connection.getMetaData();
		step("get_columns", () -> {
			List<String> columns = new ArrayList<>();
			ResultSet result = data.getColumns(null, "public", "readings", null);
			while (result.next()) columns.add(result.getString("COLUMN_NAME") + " " + result.getString("TYPE_NAME") + " " + result.getString("NULLABLE") + " " + result.getString("COLUMN_DEF"));
			return columns;
		});
		step("get_tables", () -> rows(data.getTables(null, "public", null, new String[] {"TABLE"})).size());
		step("get_foreign_tables", () -> rows(data.getTables(null, "public", null, new String[] {"TABLE", "FOREIGN TABLE"})).size());
		step("get_primary_keys", () -> rows(data.getPrimaryKeys(null, "public", "readings")));
		step("get_keys_and_indexes", () -> List.of(rows(data.getImportedKeys(null, "public", "readings")).size(), rows(data.getIndexInfo(null, "public", "readings", false, true)).size()));
		step("drop_tables", () -> {
			execute("DROP TABLE readings, sensors");
			return rows(data.getTables(null, "public", null, null));
		});
		connection.close();
	}
}
