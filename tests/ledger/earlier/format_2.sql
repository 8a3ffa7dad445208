-- A ledger of format 2, written by the code of commit a75410e.
BEGIN TRANSACTION;
CREATE TABLE builds (
        id TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
        source_digest TEXT NOT NULL,
        compat TEXT NOT NULL,
        status TEXT NOT NULL,
        artifact_digest TEXT CHECK ((artifact_digest IS NOT NULL) = (status = 'ok')),
        symbol TEXT NOT NULL,
        abi TEXT NOT NULL,
        reason TEXT NOT NULL,
        seconds REAL NOT NULL CHECK (seconds >= 0),
        resources TEXT NOT NULL CHECK (CASE json_valid(resources) WHEN 1 THEN json_type(resources) = 'object' ELSE 0 END),
        compiler TEXT NOT NULL,
        target TEXT NOT NULL,
        created TEXT NOT NULL CHECK (created GLOB '????-??-??T??:??:??.??????Z')
    ) STRICT;
INSERT INTO "builds" VALUES('9393619a787d939647535927f3a153ea','one','c','ok','artifact','','','',0.0,'{}','','','2025-03-01T00:00:05.000000Z');
INSERT INTO "builds" VALUES('d5b398a05000988056e61c87f5131dcd','two','c','build_error',NULL,'','','no',0.0,'{}','','','2025-03-01T00:00:06.000000Z');
INSERT INTO "builds" VALUES('b6760e61bc335a04b4b720e64667b666','one','c','ok','again','','','',0.0,'{}','','','2025-03-01T00:00:07.000000Z');
CREATE TABLE candidate_builds (
        candidate TEXT NOT NULL REFERENCES candidates (id),
        compat TEXT NOT NULL,
        source_digest TEXT NOT NULL,
        created TEXT NOT NULL CHECK (created GLOB '????-??-??T??:??:??.??????Z'),
        PRIMARY KEY (candidate, compat, source_digest)
    ) STRICT, WITHOUT ROWID;
INSERT INTO "candidate_builds" VALUES('3e5a7734cc71bf65d3f9dffc88121e76','c','one','2025-03-01T00:00:07.000000Z');
INSERT INTO "candidate_builds" VALUES('3e5a7734cc71bf65d3f9dffc88121e76','c','two','2025-03-01T00:00:06.000000Z');
INSERT INTO "candidate_builds" VALUES('86eead002af2b7608d4e0ef4abaed159','c','two','2025-03-01T00:00:06.000000Z');
CREATE TABLE candidates (
        id TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
        problem TEXT NOT NULL,
        solver TEXT NOT NULL,
        solver_version INTEGER NOT NULL,
        config TEXT NOT NULL CHECK (CASE json_valid(config) WHEN 1 THEN json_type(config) = 'object' ELSE 0 END),
        created TEXT NOT NULL CHECK (created GLOB '????-??-??T??:??:??.??????Z'),
        UNIQUE (problem, solver, solver_version, config)
    ) STRICT;
INSERT INTO "candidates" VALUES('3e5a7734cc71bf65d3f9dffc88121e76','matmul:8x8x8:f32','loops',1,'{"tile":4}','2025-03-01T00:00:05.000000Z');
INSERT INTO "candidates" VALUES('86eead002af2b7608d4e0ef4abaed159','matmul:8x8x8:f32','loops',1,'{"tile":8}','2025-03-01T00:00:06.000000Z');
INSERT INTO "candidates" VALUES('0eac8cfd9ba0af060dd1c9912871cd6a','matmul:8x8x8:f32','loops',1,'{}','2025-03-01T00:00:09.000000Z');
INSERT INTO "candidates" VALUES('e32a268fa24b5373391755ea6830aac6','sweep:knobs@0000000000000000','command',1,'{"a":1}','2025-03-01T00:00:14.000000Z');
INSERT INTO "candidates" VALUES('3cdf1bcaf7330053ec3747f033ae1dd7','sweep:knobs@0000000000000000','command',1,'{"a":2}','2025-03-01T00:00:16.000000Z');
INSERT INTO "candidates" VALUES('ae8d7c7daf60f5e715e4f8628ce03aa7','sweep:knobs@0000000000000000','command',1,'{"a":3}','2025-03-01T00:00:18.000000Z');
INSERT INTO "candidates" VALUES('db828b6d1bfd98b3bb230eb8814add24','sweep:rnnt@1111111111111111','command',1,'{"a":1}','2025-03-01T00:00:20.000000Z');
INSERT INTO "candidates" VALUES('bcc75f7b5abbc995fd58a5d912c38023','sweep:rnnt@1111111111111111','command',1,'{"a":2}','2025-03-01T00:00:22.000000Z');
INSERT INTO "candidates" VALUES('49622d488baf6448ae1e90fd37d38372','sweep:rnnt@1111111111111111','command',1,'{"a":3}','2025-03-01T00:00:23.000000Z');
INSERT INTO "candidates" VALUES('e1022a9f509b592c31e153781408aba9','sweep:rnnt@1111111111111111','command',1,'{"a":4}','2025-03-01T00:00:24.000000Z');
INSERT INTO "candidates" VALUES('0241c0c8480af3dc0cb7bfca044caf24','sweep:rnnt@1111111111111111','command',1,'{}','2025-03-01T00:00:25.000000Z');
INSERT INTO "candidates" VALUES('e2076eb3d89df438408d98235be0a011','sweep:rnnt@1111111111111111','command',1,'{"a":5}','2025-03-01T00:00:28.000000Z');
INSERT INTO "candidates" VALUES('e5105f8c90136dfee56b556e31f2bd2f','sweep:rnnt@1111111111111111','command',1,'{"a":6}','2025-03-01T00:00:30.000000Z');
INSERT INTO "candidates" VALUES('72a11dc023d5ceaf35db2d0fdc6d8a7b','sweep:bert@2222222222222222','command',1,'{"a":1}','2025-03-01T00:00:31.000000Z');
INSERT INTO "candidates" VALUES('89446dbd9bb58bb7e772ab28d853ec12','sweep:bert@2222222222222222','command',1,'{}','2025-03-01T00:00:32.000000Z');
INSERT INTO "candidates" VALUES('c0c57bbf233f7e4ca114565c4b73b683','autotune:add_one/source=00/arguments=11/key=1000/triton=3.6.0','triton_autotune',1,'{"BLOCK":64}','2026-11-16T08:21:17.234794Z');
INSERT INTO "candidates" VALUES('cd36319eeae55b4382b21fd566b160a1','autotune:add_one/source=00/arguments=11/key=1000/triton=3.6.0','triton_autotune',1,'{"BLOCK":128}','2026-11-16T08:21:17.234794Z');
INSERT INTO "candidates" VALUES('96da015a0f5c84b7172cbc7bc0f89770','autotune:add_one/source=00/arguments=11/key=1000/triton=3.6.0','triton_autotune',1,'{"BLOCK":256}','2026-11-16T08:21:17.234794Z');
INSERT INTO "candidates" VALUES('be1921bc68679bd7cd26b5e27ae5a51f','autotune:add_one/source=00/arguments=11/key=1000/triton=3.6.0','triton_autotune',1,'{"BLOCK":512}','2026-11-16T08:21:17.234794Z');
INSERT INTO "candidates" VALUES('c93656dab0b19a578776dccc8265ecb1','autotune:add_one/source=00/arguments=11/key=1000/triton=3.6.0','triton_autotune',1,'{"BLOCK":1024}','2026-11-16T08:21:17.251072Z');
INSERT INTO "candidates" VALUES('c981739d2c4b51d615df0648a9fdbbd0','autotune:add_one/source=00/arguments=11/key=1000/triton=3.6.0','triton_autotune',1,'{"by":"genetic","searched":"abc","seconds":null,"trials":8}','2026-11-16T08:21:17.276611Z');
INSERT INTO "candidates" VALUES('780e1708650d9b320909fa73729c8251','autotune:add_one/source=00/arguments=11/key=1000/triton=3.6.0','triton_autotune',1,'{"by":"random","searched":"abc","seconds":null,"trials":8}','2026-11-16T08:21:17.323104Z');
CREATE TABLE devices (
        id TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
        class_key TEXT NOT NULL,
        name TEXT NOT NULL,
        record TEXT NOT NULL CHECK (CASE json_valid(record) WHEN 1 THEN json_type(record) = 'object' ELSE 0 END),
        created TEXT NOT NULL CHECK (created GLOB '????-??-??T??:??:??.??????Z')
    ) STRICT;
INSERT INTO "devices" VALUES('aef6b59989f3bce3091189df632a1e82','cpu:znver4/1:3d75790a3931','znver4/1','{"arch":"znver4","caches":[],"cores":1,"features":["avx2"],"kind":"cpu","memory_bytes":0,"model":"","serial":"s","units":1,"vector_bytes":16}','2025-03-01T00:00:00.000000Z');
CREATE TABLE epochs (
        study TEXT NOT NULL REFERENCES studies (id),
        solver_version INTEGER NOT NULL,
        number INTEGER NOT NULL CHECK (number >= 0),
        created TEXT NOT NULL CHECK (created GLOB '????-??-??T??:??:??.??????Z'),
        PRIMARY KEY (study, solver_version, number)
    ) STRICT, WITHOUT ROWID;
INSERT INTO "epochs" VALUES('6c61169a49384323',1,0,'2025-03-01T00:00:01.000000Z');
INSERT INTO "epochs" VALUES('c6436b94938936c1',1,0,'2025-03-01T00:00:13.000000Z');
CREATE TABLE measurements (
        id TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
        candidate TEXT NOT NULL REFERENCES candidates (id),
        source_digest TEXT,
        device_instance TEXT NOT NULL,
        device_class TEXT NOT NULL,
        protocol TEXT NOT NULL REFERENCES protocols (id),
        session TEXT NOT NULL,
        block INTEGER NOT NULL,
        samples_ns TEXT NOT NULL CHECK (CASE json_valid(samples_ns) WHEN 1 THEN json_type(samples_ns) = 'array' ELSE 0 END),
        sentinel_ns REAL,
        disturbed INTEGER NOT NULL CHECK (disturbed >= 0),
        metrics TEXT NOT NULL CHECK (CASE json_valid(metrics) WHEN 1 THEN json_type(metrics) = 'object' ELSE 0 END),
        verdict TEXT NOT NULL,
        created TEXT NOT NULL CHECK (created GLOB '????-??-??T??:??:??.??????Z')
    ) STRICT;
INSERT INTO "measurements" VALUES('180d8ed7d5d78364bf367c1b2f2f2296','3e5a7734cc71bf65d3f9dffc88121e76','one','cpu:znver4/1:abc:s','cpu:znver4/1:abc','312022e6d16f740a6af2fff0e2d0a3d8','tune',0,'[10.1,0.30000000000000004,"inf"]',5.5,0,'{"calls":12.0}','ok','2025-03-01T00:00:08.000000Z');
INSERT INTO "measurements" VALUES('5ba2e18fdb99f604b2945e190b742b2f','3e5a7734cc71bf65d3f9dffc88121e76','one','cpu:znver4/1:abc:s','cpu:znver4/1:abc','312022e6d16f740a6af2fff0e2d0a3d8','tune',1,'[11.1,0.30000000000000004,"inf"]',5.5,1,'{"calls":12.0}','ok','2025-03-01T00:00:08.000000Z');
INSERT INTO "measurements" VALUES('d7511a1356923e36cd38c107ec2f4e7b','0eac8cfd9ba0af060dd1c9912871cd6a',NULL,'cpu:znver4/1:abc:s','cpu:znver4/1:abc','312022e6d16f740a6af2fff0e2d0a3d8','tune',2,'[0.0003333333333333333]',NULL,0,'{"calls":3.0}','ok','2025-03-01T00:00:09.000000Z');
INSERT INTO "measurements" VALUES('3d3273b9f3e3eee289ac5d6c836a8f3d','e32a268fa24b5373391755ea6830aac6',NULL,'cpu:1','cpu','bafc65515c85aafa02fd3ec95eb5e967','6c5b1859873d',1,'[100000000.0]',NULL,0,'{"skipjack.notes":"[]","speed":1.0}','ok','2025-03-01T00:00:14.000000Z');
INSERT INTO "measurements" VALUES('3efdb03eedcc0161916156ee12e836bd','3cdf1bcaf7330053ec3747f033ae1dd7',NULL,'cpu:1','cpu','bafc65515c85aafa02fd3ec95eb5e967','6c5b1859873d',2,'[100000000.0]',NULL,0,'{"skipjack.notes":"[]","skipjack.reason":"it fell over"}','crash','2025-03-01T00:00:16.000000Z');
INSERT INTO "measurements" VALUES('da7bfcf0a46c3a5c96302e8fa8031dc7','ae8d7c7daf60f5e715e4f8628ce03aa7',NULL,'cpu:1','cpu','bafc65515c85aafa02fd3ec95eb5e967','6c5b1859873d',3,'[100000000.0]',NULL,0,'{"skipjack.notes":"[]","speed":3.0}','ok','2025-03-01T00:00:18.000000Z');
INSERT INTO "measurements" VALUES('6310f267c066b5d38ceed6ee8f2abc81','db828b6d1bfd98b3bb230eb8814add24',NULL,'cpu:1','cpu','bafc65515c85aafa02fd3ec95eb5e967','session-1',1,'[333333333.3333333]',NULL,0,'{"p99_latency_ns":"inf","qps":12.5,"result_validity":"VALID","samples_per_second":0.30000000000000004,"skipjack.build_seconds":2.5,"skipjack.log":"logs/1.txt","skipjack.notes":"[\"throttled\", \"caf\\u00e9\"]"}','ok','2025-03-01T00:00:20.000000Z');
INSERT INTO "measurements" VALUES('fe885e743c0e1b7238795b9ba5372b7f','db828b6d1bfd98b3bb230eb8814add24',NULL,'cpu:1','cpu','bafc65515c85aafa02fd3ec95eb5e967','session-1',2,'[333333333.3333333]',NULL,0,'{"p99_latency_ns":"inf","qps":13.5,"result_validity":"VALID","samples_per_second":0.30000000000000004,"skipjack.build_seconds":2.5,"skipjack.log":"logs/1.txt","skipjack.notes":"[\"throttled\", \"caf\\u00e9\"]"}','ok','2025-03-01T00:00:21.000000Z');
INSERT INTO "measurements" VALUES('7799a89fa2b2cc42370cca9cfdf59363','bcc75f7b5abbc995fd58a5d912c38023',NULL,'cpu:1','cpu','bafc65515c85aafa02fd3ec95eb5e967','session-1',3,'[250000000.0]',NULL,0,'{"skipjack.log":"logs/2.txt","skipjack.notes":"[]","skipjack.reason":"signal 11 \u2014 \u00e4"}','crash','2025-03-01T00:00:22.000000Z');
INSERT INTO "measurements" VALUES('0229e11d3d9b5a91d0bbcd96e0028cb5','49622d488baf6448ae1e90fd37d38372',NULL,'cpu:1','cpu','bafc65515c85aafa02fd3ec95eb5e967','session-1',4,'[10000000000.0]',NULL,0,'{"skipjack.notes":"[]","skipjack.reason":"took longer than 10 s","skipjack.timeout_s":10.0}','timeout','2025-03-01T00:00:23.000000Z');
INSERT INTO "measurements" VALUES('af999430d9dac2863f810dae83fda803','e1022a9f509b592c31e153781408aba9',NULL,'cpu:1','cpu','bafc65515c85aafa02fd3ec95eb5e967','session-1',5,'[1000000000.0]',NULL,0,'{"qps":1.0,"skipjack.notes":"[]","skipjack.reason":"INVALID"}','invalid','2025-03-01T00:00:24.000000Z');
INSERT INTO "measurements" VALUES('c989ac0c4de6b2f5f2f36248de666af2','0241c0c8480af3dc0cb7bfca044caf24',NULL,'cpu:1','cpu','e2376501c6b5922e715f23af4f413784','session-1',6,'[]',NULL,0,'{}','failures','2025-03-01T00:00:25.000000Z');
INSERT INTO "measurements" VALUES('8153def794ba66814d3887b9ac76ba2c','49622d488baf6448ae1e90fd37d38372',NULL,'cpu:1','cpu','bafc65515c85aafa02fd3ec95eb5e967','session-2',1,'[10000000000.0]',NULL,0,'{"skipjack.notes":"[]","skipjack.reason":"took longer than 10 s","skipjack.timeout_s":10.0}','timeout','2025-03-01T00:00:26.000000Z');
INSERT INTO "measurements" VALUES('52906af0c12abc4eda688520b841df8d','bcc75f7b5abbc995fd58a5d912c38023',NULL,'cpu:1','cpu','761ea15b8efe42df0f1b8030f308f2aa','session-2',2,'[333333333.3333333]',NULL,0,'{"p99_latency_ns":"inf","qps":2.0,"result_validity":"VALID","samples_per_second":0.30000000000000004,"skipjack.build_seconds":2.5,"skipjack.log":"logs/1.txt","skipjack.notes":"[\"throttled\", \"caf\\u00e9\"]"}','ok','2025-03-01T00:00:27.000000Z');
INSERT INTO "measurements" VALUES('f3a6d52701a036edb733a28ed6119464','e2076eb3d89df438408d98235be0a011',NULL,'cpu:1','cpu','bafc65515c85aafa02fd3ec95eb5e967','session-2',3,'[500000000.0]',NULL,0,'{"qps":0.5,"skipjack.notes":"[]","skipjack.reason":"signal 6"}','crash','2025-03-01T00:00:28.000000Z');
INSERT INTO "measurements" VALUES('3061f804f610fd4d95bc12323b078232','db828b6d1bfd98b3bb230eb8814add24',NULL,'elsewhere:1','elsewhere','bafc65515c85aafa02fd3ec95eb5e967','session-3',1,'[333333333.3333333]',NULL,0,'{"p99_latency_ns":"inf","qps":99.0,"result_validity":"VALID","samples_per_second":0.30000000000000004,"skipjack.build_seconds":2.5,"skipjack.log":"logs/1.txt","skipjack.notes":"[\"throttled\", \"caf\\u00e9\"]"}','ok','2025-03-01T00:00:29.000000Z');
INSERT INTO "measurements" VALUES('37d74d04a257255dd164b57422a26590','e5105f8c90136dfee56b556e31f2bd2f',NULL,'cpu:1','cpu','bafc65515c85aafa02fd3ec95eb5e967','session-4',1,'[100000000000.0]',NULL,0,'{"skipjack.notes":"[]","skipjack.reason":"for ever","skipjack.timeout_s":"inf"}','timeout','2025-03-01T00:00:30.000000Z');
INSERT INTO "measurements" VALUES('5af68ae51f8fd3b3bd771a5c35fea97d','72a11dc023d5ceaf35db2d0fdc6d8a7b',NULL,'cpu:1','cpu','bafc65515c85aafa02fd3ec95eb5e967','session-5',1,'[333333333.3333333]',NULL,0,'{"p99_latency_ns":"inf","qps":1.0,"result_validity":"VALID","samples_per_second":0.30000000000000004,"skipjack.build_seconds":2.5,"skipjack.log":"logs/1.txt","skipjack.notes":"[\"throttled\", \"caf\\u00e9\"]"}','ok','2025-03-01T00:00:31.000000Z');
INSERT INTO "measurements" VALUES('0a4ae31b8c13d87d16f73803e5d094c2','89446dbd9bb58bb7e772ab28d853ec12',NULL,'cpu:1','cpu','e2376501c6b5922e715f23af4f413784','session-5',2,'[]',NULL,0,'{}','everything','2025-03-01T00:00:32.000000Z');
INSERT INTO "measurements" VALUES('631158ee15850d4acdb0009e2d072306','72a11dc023d5ceaf35db2d0fdc6d8a7b',NULL,'cpu:1','cpu','bafc65515c85aafa02fd3ec95eb5e967','session-5',3,'[333333333.3333333]',NULL,0,'{"p99_latency_ns":"inf","qps":2.0,"result_validity":"VALID","samples_per_second":0.30000000000000004,"skipjack.build_seconds":2.5,"skipjack.log":"logs/1.txt","skipjack.notes":"[\"throttled\", \"caf\\u00e9\"]"}','ok','2025-03-01T00:00:33.000000Z');
INSERT INTO "measurements" VALUES('9d72b55bbe00a3929b45a58df320494f','89446dbd9bb58bb7e772ab28d853ec12',NULL,'cpu:1','cpu','bafc65515c85aafa02fd3ec95eb5e967','session-5',4,'[333333333.3333333]',NULL,0,'{"p99_latency_ns":"inf","qps":3.0,"result_validity":"VALID","samples_per_second":0.30000000000000004,"skipjack.build_seconds":2.5,"skipjack.log":"logs/1.txt","skipjack.notes":"[\"throttled\", \"caf\\u00e9\"]"}','ok','2025-03-01T00:00:34.000000Z');
INSERT INTO "measurements" VALUES('ac385424e5d18c17f82992bcb7915cf4','c0c57bbf233f7e4ca114565c4b73b683',NULL,'cuda:sm_90/132:abc:0','cuda:sm_90/132:abc','09249cdcf298d0a82544479d25b03416','a1d9553416d95ef3',0,'[10.5,11.5,12.5]',NULL,0,'{}','ok','2026-11-16T08:21:17.234794Z');
INSERT INTO "measurements" VALUES('c7ed1f5830fe8a7f642b2d9982b47445','cd36319eeae55b4382b21fd566b160a1',NULL,'cuda:sm_90/132:abc:0','cuda:sm_90/132:abc','09249cdcf298d0a82544479d25b03416','a1d9553416d95ef3',0,'[20.0]',NULL,0,'{}','ok','2026-11-16T08:21:17.234794Z');
INSERT INTO "measurements" VALUES('0fdec30443c9484fcbecce7608c77783','96da015a0f5c84b7172cbc7bc0f89770',NULL,'cuda:sm_90/132:abc:0','cuda:sm_90/132:abc','09249cdcf298d0a82544479d25b03416','a1d9553416d95ef3',0,'[]',NULL,0,'{"reason":"no power of 2"}','build_error','2026-11-16T08:21:17.234794Z');
INSERT INTO "measurements" VALUES('7c8b95cd4e32952938e802e34ce2fb0e','be1921bc68679bd7cd26b5e27ae5a51f',NULL,'cuda:sm_90/132:abc:0','cuda:sm_90/132:abc','09249cdcf298d0a82544479d25b03416','a1d9553416d95ef3',0,'[]',NULL,0,'{"reason":"SIGSEGV"}','build_crash','2026-11-16T08:21:17.234794Z');
INSERT INTO "measurements" VALUES('0243f0a453107f3ff86f4faac406de83','c0c57bbf233f7e4ca114565c4b73b683',NULL,'cuda:sm_90/132:abc:0','cuda:sm_90/132:abc','09249cdcf298d0a82544479d25b03416','df74ec38e9993b7c',0,'[21.0]',NULL,0,'{}','ok','2026-11-16T08:21:17.251072Z');
INSERT INTO "measurements" VALUES('5736f62c74dd1d710077c9f2d2b155d4','be1921bc68679bd7cd26b5e27ae5a51f',NULL,'cuda:sm_90/132:abc:0','cuda:sm_90/132:abc','09249cdcf298d0a82544479d25b03416','df74ec38e9993b7c',0,'[0.30000000000000004]',NULL,0,'{}','ok','2026-11-16T08:21:17.251072Z');
INSERT INTO "measurements" VALUES('9cd9e4123b5ef63242aa7642675acd63','c93656dab0b19a578776dccc8265ecb1',NULL,'cuda:sm_90/132:abc:0','cuda:sm_90/132:abc','09249cdcf298d0a82544479d25b03416','df74ec38e9993b7c',0,'[]',NULL,0,'{"reason":"shared"}','out_of_memory','2026-11-16T08:21:17.251072Z');
INSERT INTO "measurements" VALUES('645ad2f31e109ea4b38a12c65ba2a08c','c981739d2c4b51d615df0648a9fdbbd0',NULL,'cuda:sm_90/132:abc:0','cuda:sm_90/132:abc','09249cdcf298d0a82544479d25b03416','746df79fa248ef3c',0,'[]',NULL,0,'{"reason":"a search that came to its end"}','no_result','2026-11-16T08:21:17.276611Z');
INSERT INTO "measurements" VALUES('1378b3f66e924f454d548cb54ad7bba7','c0c57bbf233f7e4ca114565c4b73b683',NULL,'cuda:sm_90/132:abc:0','cuda:sm_90/132:abc','8d2b7a45c01f46182ca1ab78049f966b','e3ea17d91c613c67',0,'[1.0]',NULL,0,'{}','ok','2026-11-16T08:21:17.298014Z');
INSERT INTO "measurements" VALUES('b7c8efbc9347be20a0ea07242e712286','780e1708650d9b320909fa73729c8251',NULL,'cuda:sm_90/132:abc:0','cuda:sm_90/132:abc','8d2b7a45c01f46182ca1ab78049f966b','7e78848174fea555',0,'[]',NULL,0,'{"reason":"a search that came to its end"}','no_result','2026-11-16T08:21:17.323104Z');
CREATE TABLE protocols (
        id TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
        text TEXT NOT NULL UNIQUE,
        created TEXT NOT NULL CHECK (created GLOB '????-??-??T??:??:??.??????Z')
    ) STRICT;
INSERT INTO "protocols" VALUES('312022e6d16f740a6af2fff0e2d0a3d8','{"alignment_bytes":64,"caches":"hot","call_timeout_s":10.0,"confirm_blocks":40,"inputs":"uniform(-1,1)","pinned":true,"places":"page starts; 64 bytes apart","race_blocks":3,"sample_ns":60000,"samples_per_block":4,"threads":1,"timer":"clock_monotonic_in_native_loop"}','2025-03-01T00:00:01.000000Z');
INSERT INTO "protocols" VALUES('bafc65515c85aafa02fd3ec95eb5e967','command:{}','2025-03-01T00:00:14.000000Z');
INSERT INTO "protocols" VALUES('e2376501c6b5922e715f23af4f413784','command:forget','2025-03-01T00:00:25.000000Z');
INSERT INTO "protocols" VALUES('761ea15b8efe42df0f1b8030f308f2aa','command:{"seconds":5}','2025-03-01T00:00:27.000000Z');
INSERT INTO "protocols" VALUES('09249cdcf298d0a82544479d25b03416','graph','2026-11-16T08:21:17.234794Z');
INSERT INTO "protocols" VALUES('8d2b7a45c01f46182ca1ab78049f966b','events','2026-11-16T08:21:17.298014Z');
CREATE TABLE studies (
        id TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
        problem TEXT NOT NULL,
        solver TEXT NOT NULL,
        device TEXT NOT NULL,
        searcher TEXT NOT NULL,
        seed TEXT NOT NULL,
        space TEXT NOT NULL,
        objective TEXT NOT NULL,
        protocol TEXT NOT NULL REFERENCES protocols (id),
        created TEXT NOT NULL CHECK (created GLOB '????-??-??T??:??:??.??????Z')
    ) STRICT;
INSERT INTO "studies" VALUES('6c61169a49384323','matmul:8x8x8:f32','loops','cpu:znver4/1:abc','genetic','7','','time_ns:min','312022e6d16f740a6af2fff0e2d0a3d8','2025-03-01T00:00:01.000000Z');
INSERT INTO "studies" VALUES('c6436b94938936c1','sweep:knobs@0000000000000000','command','cpu','all','0','','speed:max','312022e6d16f740a6af2fff0e2d0a3d8','2025-03-01T00:00:13.000000Z');
CREATE TABLE study_log (
        id TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
        study TEXT NOT NULL,
        solver_version INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        seq INTEGER NOT NULL CHECK (seq > 0),
        kind TEXT NOT NULL CHECK (kind IN ('ask', 'tell')),
        config TEXT NOT NULL CHECK (CASE json_valid(config) WHEN 1 THEN json_type(config) = 'object' ELSE 0 END),
        status TEXT CHECK ((status IS NULL) = (kind = 'ask')),
        value REAL CHECK (value IS NULL OR status = 'ok'),
        spread REAL,
        reason TEXT,
        metrics TEXT CHECK (metrics IS NULL OR CASE json_valid(metrics) WHEN 1 THEN json_type(metrics) = 'object' ELSE 0 END),
        created TEXT NOT NULL CHECK (created GLOB '????-??-??T??:??:??.??????Z'),
        FOREIGN KEY (study, solver_version, epoch)
            REFERENCES epochs (study, solver_version, number)
    ) STRICT;
INSERT INTO "study_log" VALUES('7208e9860e148e1836b1feecb2f2fea5','6c61169a49384323',1,0,1,'ask','{"tile":4}',NULL,NULL,NULL,NULL,NULL,'2025-03-01T00:00:02.000000Z');
INSERT INTO "study_log" VALUES('640e6f70bd1d265ba9f2f4a1681c1811','6c61169a49384323',1,0,2,'ask','{"tile":8}',NULL,NULL,NULL,NULL,NULL,'2025-03-01T00:00:03.000000Z');
INSERT INTO "study_log" VALUES('acb3e06ea4212773c7873b9e4e098eff','6c61169a49384323',1,0,3,'tell','{"tile":4}','ok',2.5,0.0,'','{"time_ns":2.5}','2025-03-01T00:00:04.000000Z');
INSERT INTO "study_log" VALUES('ebb5d9410aaca6c7a2003a94bce3f57b','6c61169a49384323',1,0,4,'tell','{"tile":8}','crash',NULL,0.0,'signal 11','{}','2025-03-01T00:00:04.000000Z');
INSERT INTO "study_log" VALUES('6e9d00914d6d8dc167240531eea0215f','c6436b94938936c1',1,0,1,'tell','{"a":1}','ok',-1.0,0.0,'','{"speed":1.0}','2025-03-01T00:00:15.000000Z');
INSERT INTO "study_log" VALUES('e62d4e76624a152e7215bc3d9ff9657c','c6436b94938936c1',1,0,2,'tell','{"a":2}','crash',NULL,0.0,'it fell over','{}','2025-03-01T00:00:17.000000Z');
INSERT INTO "study_log" VALUES('19b8f4e79043b83c757e58fb08582e74','c6436b94938936c1',1,0,3,'tell','{"a":3}','ok',-3.0,0.0,'','{"speed":3.0}','2025-03-01T00:00:19.000000Z');
CREATE TABLE verdicts (
        id TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
        study TEXT NOT NULL REFERENCES studies (id),
        problem TEXT NOT NULL,
        device TEXT NOT NULL,
        solver TEXT NOT NULL,
        config TEXT NOT NULL CHECK (CASE json_valid(config) WHEN 1 THEN json_type(config) = 'object' ELSE 0 END),
        status TEXT NOT NULL CHECK (status <> ''),
        record TEXT NOT NULL CHECK (CASE json_valid(record) WHEN 1 THEN json_type(record) = 'object' ELSE 0 END),
        created TEXT NOT NULL CHECK (created GLOB '????-??-??T??:??:??.??????Z')
    ) STRICT;
INSERT INTO "verdicts" VALUES('4bc03427a07a9aeacfe7fef2c41d5ffe','6c61169a49384323','matmul:8x8x8:f32','cpu:znver4/1:abc','loops','{"tile":4}','banked','{"tile":4}','2025-03-01T00:00:10.000000Z');
INSERT INTO "verdicts" VALUES('09a2ec01735cb8cc608b4c3a6309edd9','6c61169a49384323','matmul:8x8x8:f32','cpu:znver4/1:abc','loops','{"tile":16}','banked','{"tile":16}','2025-03-01T00:00:11.000000Z');
INSERT INTO "verdicts" VALUES('a1aa60509f8502afbc1bc64435b62d03','6c61169a49384323','matmul:8x8x8:f32','cpu:znver4/1:abc','loops','{"tile":32}','reserved','{"tile":32}','2025-03-01T00:00:12.000000Z');
CREATE TRIGGER study_log_no_update BEFORE UPDATE ON study_log BEGIN SELECT RAISE(ABORT, 'study_log is append-only'); END;
CREATE TRIGGER study_log_no_delete BEFORE DELETE ON study_log BEGIN SELECT RAISE(ABORT, 'study_log is append-only'); END;
CREATE TRIGGER builds_no_update BEFORE UPDATE ON builds BEGIN SELECT RAISE(ABORT, 'builds is append-only'); END;
CREATE TRIGGER builds_no_delete BEFORE DELETE ON builds BEGIN SELECT RAISE(ABORT, 'builds is append-only'); END;
CREATE TRIGGER measurements_no_update BEFORE UPDATE ON measurements BEGIN SELECT RAISE(ABORT, 'measurements is append-only'); END;
CREATE TRIGGER measurements_no_delete BEFORE DELETE ON measurements BEGIN SELECT RAISE(ABORT, 'measurements is append-only'); END;
CREATE TRIGGER verdicts_no_update BEFORE UPDATE ON verdicts BEGIN SELECT RAISE(ABORT, 'verdicts is append-only'); END;
CREATE TRIGGER verdicts_no_delete BEFORE DELETE ON verdicts BEGIN SELECT RAISE(ABORT, 'verdicts is append-only'); END;
CREATE INDEX study_log_in_order ON study_log (study, solver_version, epoch, seq);
CREATE INDEX builds_by_source ON builds (source_digest, compat);
CREATE INDEX measurements_by_candidate ON measurements (candidate);
CREATE INDEX verdicts_by_problem ON verdicts (problem, status);
CREATE VIEW current_epochs AS
        SELECT study, solver_version, number FROM epochs AS mine
        WHERE NOT EXISTS (
            SELECT 1 FROM epochs AS later WHERE later.study = mine.study
            AND (later.solver_version, later.number) > (mine.solver_version, mine.number)
        );
COMMIT;
PRAGMA application_id = 1399548523;
PRAGMA user_version = 2;
