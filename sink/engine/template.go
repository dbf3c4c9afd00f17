package engine

import "text/template"

var templateFuncs = template.FuncMap{"xml": escape}

// What the merge_tree section says of fsync is so in both durabilities: the sink moves its mark once ClickHouse has answered, so what
// ClickHouse has must survive a power cut, merged parts like inserted ones. It costs 2 to 4 ms an insert. Parts that were merged stay for a
// minute, beyond what a kernel keeps in its pages, in case a disk lies about a sync; libchdb's own default is to drop them at once, and the
// server's 480 s would keep some 50 000 parts of a steady light load (16 kB of memory and 15 files each). Parts that cannot be read are
// set aside and told (sink.BrokenParts) instead of keeping the whole engine from starting.

// serverTemplate is the server's part. What it leaves out matters as much: there is no section for
// any *_log table, so ClickHouse makes none, which is most of why an idle engine stays small. The
// three number_of_free_entries settings follow the pool: their defaults refuse pools below 20.
var serverTemplate = template.Must(template.New("config.xml").Funcs(templateFuncs).Parse(`<clickhouse>
  <logger>
    <level>warning</level>
    <log>{{xml .Log}}</log>
    <size>10M</size>
    <count>2</count>
  </logger>
  <listen_host>{{xml .Host}}</listen_host>
  <http_port>{{.HTTP}}</http_port>
  <tcp_port>{{.TCP}}</tcp_port>
  <users_config>{{xml .Users}}</users_config>

  <max_server_memory_usage>{{.Memory}}</max_server_memory_usage>
  <mark_cache_size>67108864</mark_cache_size>
  <primary_index_cache_size>67108864</primary_index_cache_size>
  <index_mark_cache_size>8388608</index_mark_cache_size>
  <uncompressed_cache_size>0</uncompressed_cache_size>
  <index_uncompressed_cache_size>0</index_uncompressed_cache_size>
  <mmap_cache_size>64</mmap_cache_size>
  <page_cache_max_size>0</page_cache_max_size>
  <compiled_expression_cache_size>16777216</compiled_expression_cache_size>

  <max_thread_pool_size>512</max_thread_pool_size>
  <max_thread_pool_free_size>16</max_thread_pool_free_size>
  <background_pool_size>4</background_pool_size>
  <background_merges_mutations_concurrency_ratio>2</background_merges_mutations_concurrency_ratio>
  <background_fetches_pool_size>1</background_fetches_pool_size>
  <background_move_pool_size>1</background_move_pool_size>
  <background_common_pool_size>2</background_common_pool_size>
  <background_schedule_pool_size>4</background_schedule_pool_size>
  <background_buffer_flush_schedule_pool_size>1</background_buffer_flush_schedule_pool_size>
  <background_message_broker_schedule_pool_size>1</background_message_broker_schedule_pool_size>
  <background_distributed_schedule_pool_size>1</background_distributed_schedule_pool_size>
  <tables_loader_foreground_pool_size>2</tables_loader_foreground_pool_size>
  <tables_loader_background_pool_size>2</tables_loader_background_pool_size>
  <merge_tree>
    <number_of_free_entries_in_pool_to_lower_max_size_of_merge>2</number_of_free_entries_in_pool_to_lower_max_size_of_merge>
    <number_of_free_entries_in_pool_to_execute_mutation>2</number_of_free_entries_in_pool_to_execute_mutation>
    <number_of_free_entries_in_pool_to_execute_optimize_entire_partition>2</number_of_free_entries_in_pool_to_execute_optimize_entire_partition>

    <fsync_after_insert>1</fsync_after_insert>
    <fsync_part_directory>1</fsync_part_directory>
    <min_rows_to_fsync_after_merge>1</min_rows_to_fsync_after_merge>
    <min_compressed_bytes_to_fsync_after_merge>1</min_compressed_bytes_to_fsync_after_merge>
    <old_parts_lifetime>60</old_parts_lifetime>
    <max_suspicious_broken_parts>1000000</max_suspicious_broken_parts>
    <max_suspicious_broken_parts_bytes>1000000000000</max_suspicious_broken_parts_bytes>
  </merge_tree>
</clickhouse>
`))

// usersTemplate is who may do what. The engine's own first session always is user default (see
// engineArguments); SYSTEM LISTEN is granted for that session alone, since readonly=2 forbids every
// SYSTEM query to those that come over the network. There is no grant to read FILE, URL or any
// other source: with it a user without a password could read every file of this machine, the
// writer's password among them.
var usersTemplate = template.Must(template.New("users.xml").Funcs(templateFuncs).Parse(`<clickhouse>
  <profiles>
    <default>
      <log_queries>0</log_queries>
      <query_profiler_real_time_period_ns>0</query_profiler_real_time_period_ns>
      <query_profiler_cpu_time_period_ns>0</query_profiler_cpu_time_period_ns>
    </default>
    <reader>
      <profile>default</profile>
      <readonly>2</readonly>
    </reader>
    <writer>
      <profile>default</profile>
      <async_insert>0</async_insert>
    </writer>
  </profiles>
  <quotas>
    <default/>
  </quotas>
  <users>
    <default>
      <password/>
      <networks><ip>127.0.0.1</ip><ip>::1</ip></networks>
      <profile>reader</profile>
      <quota>default</quota>
      <grants>
        <query>GRANT SELECT, SHOW, dictGet, CREATE TEMPORARY TABLE, SYSTEM LISTEN ON *.*</query>
      </grants>
    </default>
    <{{.Writer}}>
      <password_sha256_hex>{{.PasswordSHA256}}</password_sha256_hex>
      <networks><ip>127.0.0.1</ip><ip>::1</ip></networks>
      <profile>writer</profile>
      <quota>default</quota>
      <access_management>1</access_management>
    </{{.Writer}}>
  </users>
</clickhouse>
`))
