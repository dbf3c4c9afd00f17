package engine

import "text/template"

var templateFuncs = template.FuncMap{"xml": escape}

// The fsync settings of the merge_tree section are the same in both durabilities: the sink moves its mark once ClickHouse has answered, so
// what ClickHouse has must survive a power cut, merged data parts like inserted ones. That costs 2 to 4 ms an insert. The sources of a
// merge stay for a minute, longer than a kernel keeps pages unwritten, in case a disk lies about a sync; libchdb's own default is to drop
// them at once, and the server's 480 s would keep some 50 000 data parts of a steady light load (16 kB of memory and 15 files each). Data
// parts that cannot be read are set aside and reported (sink.BrokenDataParts) instead of keeping the whole engine from starting.

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
  <access_control_improvements>
    <settings_constraints_replace_previous>true</settings_constraints_replace_previous>
    <select_from_system_db_requires_grant>true</select_from_system_db_requires_grant>
    <select_from_information_schema_requires_grant>false</select_from_information_schema_requires_grant>
  </access_control_improvements>

  <max_temporary_data_on_disk_size>{{.TemporaryData}}</max_temporary_data_on_disk_size>
  <max_server_memory_usage>{{.ServerMemory}}</max_server_memory_usage>
  <merges_mutations_memory_usage_soft_limit>{{.MergeMemory}}</merges_mutations_memory_usage_soft_limit>
  <mark_cache_size>67108864</mark_cache_size>
  <primary_index_cache_size>67108864</primary_index_cache_size>
  <index_mark_cache_size>8388608</index_mark_cache_size>
  <uncompressed_cache_size>0</uncompressed_cache_size>
  <index_uncompressed_cache_size>0</index_uncompressed_cache_size>
  <mmap_cache_size>64</mmap_cache_size>
  <page_cache_max_size>0</page_cache_max_size>
  <query_cache><max_size_in_bytes>0</max_size_in_bytes><max_entries>0</max_entries></query_cache>
  <compiled_expression_cache_size>16777216</compiled_expression_cache_size>

  <max_thread_pool_size>2048</max_thread_pool_size>
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
    <number_of_free_entries_in_pool_to_execute_optimize_entire_partition>2</number_of_free_entries_in_pool_to_execute_optimize_entire_par` +
	`tition>

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

// usersTemplate is who may do what.
//
// The engine's own first session always is user default, from 127.0.0.1, without a password; nothing can be changed about that (see
// engineArguments for what that session is given). Over the network, default cannot do anything: its only right is SYSTEM LISTEN, which
// readonly forbids there, and queries are limited to one byte, so it cannot run any. That matters because the scalar function file() does
// not need a right.
//
// A slot changes hands, so nothing that ClickHouse remembers of its questions may last: there is no cache of answers, and none of which
// rows a condition of a slot fits. For the same reason it has no quota: the door counts what each tenant asks in a minute.
//
// The reader has readonly = 1, so it cannot change any setting except those that changeable_in_readonly names: what drivers send by
// themselves. So a setting that a later engine adds is closed too. No user has the right to read FILE, URL or any other source.
var usersTemplate = template.Must(template.New("users.xml").Funcs(templateFuncs).Parse(`<clickhouse>
  <profiles>
    <default>
      <log_queries>0</log_queries>
      <query_profiler_real_time_period_ns>0</query_profiler_real_time_period_ns>
      <query_profiler_cpu_time_period_ns>0</query_profiler_cpu_time_period_ns>
    </default>
    <nobody>
      <profile>default</profile>
      <readonly>1</readonly>
      <max_query_size>1</max_query_size>
      <max_ast_elements>1</max_ast_elements>
      <max_execution_time>1</max_execution_time>
      <max_memory_usage>1048576</max_memory_usage>
      <max_concurrent_queries_for_user>2</max_concurrent_queries_for_user>
    </nobody>
    <reader>
      <profile>default</profile>
      <readonly>1</readonly>
      <max_concurrent_queries_for_user>{{.Bounds.Queries}}</max_concurrent_queries_for_user>
      <max_sessions_for_user>{{.Bounds.Sessions}}</max_sessions_for_user>
      <idle_connection_timeout>{{.Bounds.IdleSeconds}}</idle_connection_timeout>
      <max_threads>{{.Bounds.Threads}}</max_threads>
      <os_threads_nice_value_query>10</os_threads_nice_value_query>
      <max_execution_time>{{.Bounds.Seconds}}</max_execution_time>
      <max_memory_usage>{{.Bounds.QueryMemory}}</max_memory_usage>
      <max_memory_usage_for_user>{{.Bounds.UserMemory}}</max_memory_usage_for_user>
      <max_bytes_before_external_group_by>{{.Bounds.Spill}}</max_bytes_before_external_group_by>
      <max_bytes_before_external_sort>{{.Bounds.Spill}}</max_bytes_before_external_sort>
      <max_temporary_data_on_disk_size_for_user>{{.Bounds.Disk}}</max_temporary_data_on_disk_size_for_user>
      <max_temporary_data_on_disk_size_for_query>{{.Bounds.Disk}}</max_temporary_data_on_disk_size_for_query>
      <output_format_parallel_formatting>0</output_format_parallel_formatting>
      <cancel_http_readonly_queries_on_client_close>1</cancel_http_readonly_queries_on_client_close>
      <constraints>
        <max_execution_time><min>1</min><max>{{.Bounds.MostSeconds}}</max><changeable_in_readonly/></max_execution_time>
        <max_block_size><max>65536</max><changeable_in_readonly/></max_block_size>
{{- range .Changeable}}
        <{{.}}><changeable_in_readonly/></{{.}}>
{{- end}}
      </constraints>
    </reader>
{{- if .SlotUsers}}
    <slot>
      <profile>default</profile>
      <readonly>1</readonly>
      <max_concurrent_queries_for_user>{{.SlotBounds.Concurrent}}</max_concurrent_queries_for_user>
      <max_threads>{{.SlotBounds.Threads}}</max_threads>
      <os_threads_nice_value_query>10</os_threads_nice_value_query>
      <max_execution_time>{{.SlotBounds.Seconds}}</max_execution_time>
      <max_memory_usage>{{.SlotBounds.Memory}}</max_memory_usage>
      <max_memory_usage_for_user>{{.SlotBounds.UserMemory}}</max_memory_usage_for_user>
      <max_bytes_before_external_group_by>{{.SlotBounds.Spill}}</max_bytes_before_external_group_by>
      <max_bytes_before_external_sort>{{.SlotBounds.Spill}}</max_bytes_before_external_sort>
      <max_temporary_data_on_disk_size_for_user>{{.SlotBounds.Disk}}</max_temporary_data_on_disk_size_for_user>
      <max_temporary_data_on_disk_size_for_query>{{.SlotBounds.Disk}}</max_temporary_data_on_disk_size_for_query>
      <max_result_rows>{{.SlotBounds.ResultRows}}</max_result_rows>
      <max_result_bytes>{{.SlotBounds.ResultBytes}}</max_result_bytes>
      <max_rows_to_read>{{.SlotBounds.ReadRows}}</max_rows_to_read>
      <output_format_parallel_formatting>0</output_format_parallel_formatting>
      <cancel_http_readonly_queries_on_client_close>1</cancel_http_readonly_queries_on_client_close>
      <use_query_condition_cache>0</use_query_condition_cache>
      <constraints>
        <max_execution_time><min>1</min><max>{{.SlotBounds.Seconds}}</max><changeable_in_readonly/></max_execution_time>
        <max_result_rows><min>1</min><max>{{.SlotBounds.ResultRows}}</max><changeable_in_readonly/></max_result_rows>
        <max_result_bytes><min>1</min><max>{{.SlotBounds.ResultBytes}}</max><changeable_in_readonly/></max_result_bytes>
        <max_block_size><max>65536</max><changeable_in_readonly/></max_block_size>
{{- range .SlotChangeable}}
        <{{.}}><changeable_in_readonly/></{{.}}>
{{- end}}
      </constraints>
    </slot>
{{- end}}
    <writer>
      <profile>default</profile>
      <async_insert>0</async_insert>
      <max_memory_usage_for_user>{{.Memory}}</max_memory_usage_for_user>
    </writer>
{{.Extra.Profiles}}  </profiles>
  <quotas>
    <default/>
{{.Extra.Quotas}}  </quotas>
  <users>
    <default>
      <password/>
      <networks><ip>127.0.0.1</ip><ip>::1</ip></networks>
      <profile>nobody</profile>
      <quota>default</quota>
      <grants>
        <query>GRANT SYSTEM LISTEN ON *.*</query>
      </grants>
    </default>
{{- if .Reader}}
    <{{.Reader}}>
      <password_sha256_hex>{{.ReaderSHA256}}</password_sha256_hex>
      <networks><ip>127.0.0.1</ip><ip>::1</ip></networks>
      <profile>reader</profile>
      <quota>default</quota>
      <grants>
        <query>GRANT SELECT, SHOW, dictGet ON {{xml .Readable}}.*</query>
        <query>GRANT SELECT ON system.parts</query>
        <query>GRANT SELECT ON system.parts_columns</query>
      </grants>
    </{{.Reader}}>
{{- end}}
{{- range .SlotUsers}}
    <{{.Name}}>
      <password_sha256_hex>{{.SHA256}}</password_sha256_hex>
      <networks><ip>127.0.0.1</ip><ip>::1</ip></networks>
      <profile>slot</profile>
      <quota>default</quota>
      <grants>
        <query>GRANT SELECT, SHOW ON {{.Name}}.*</query>
      </grants>
    </{{.Name}}>
    <{{.Owner}}>
      <password_sha256_hex>{{.OwnerSHA256}}</password_sha256_hex>
      <networks/>
      <profile>slot</profile>
      <quota>default</quota>
      <grants>
        <query>{{xml .Grants}}</query>
      </grants>
      <databases>
        <{{$.SlotDatabase}}>
{{- range .Filters}}
          <{{.Table}}><filter>{{xml .Condition}}</filter></{{.Table}}>
{{- end}}
        </{{$.SlotDatabase}}>
      </databases>
    </{{.Owner}}>
{{- end}}
    <{{.Writer}}>
      <password_sha256_hex>{{.WriterSHA256}}</password_sha256_hex>
      <networks><ip>127.0.0.1</ip><ip>::1</ip></networks>
      <profile>writer</profile>
      <quota>default</quota>
      <access_management>1</access_management>
    </{{.Writer}}>
{{.Extra.Users}}  </users>
</clickhouse>
`))
