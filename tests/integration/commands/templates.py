# SPDX-License-Identifier: Apache-2.0
"""How each command's arguments look, in the language of grammar.py; its name comes first."""
import re

STRINGS = """
append        str value
bitcount      bits (int int (BYTE|BIT)?)?
bitfield      bits (GET enc fieldoff|SET enc fieldoff int|INCRBY enc fieldoff int|OVERFLOW
              (WRAP|SAT|FAIL|BAD))*
bitfield_ro   bits (GET enc fieldoff)* | bits SET 'u8 off int
bitop         (AND|OR|XOR) bits bits+ | NOT bits bits | NOT bits bits bits | DIFF bits bits
bitpos        bits (0|1|int) (int (int (BYTE|BIT)?)?)?
decr          num
decrby        num int
get           str | big | key
getbit        bits off
getdel        str
getex         str (EX sec|PX msec|EXAT at|PXAT msat|PERSIST)?
getrange      str int int
getset        str value
incr          num
incrby        num int
incrbyfloat   num flt
lcs           txt txt LEN? IDX? (MINMATCHLEN int)? WITHMATCHLEN?
mget          str+ | key+ | big str big
mset          (str value)+ | big large | num int txt text
msetnx        (fresh value)+ | (str value)+
psetex        str msec value
set           str value | num int | big large | txt text | str value (NX|XX|GET|EX sec|PX
              msec|EXAT at|PXAT msat|KEEPTTL)*
setbit        bits off (0|1) | bits off int
setex         str sec value
setnx         (str|fresh) value
setrange      bits off value
strlen        str | big | key
substr        str int int
pfadd         hll member*
pfcount       hll+
pfmerge       hll hll*
"""

KEYSPACE = """
copy              key (fresh|key) (DB int)? REPLACE?
del               key+
unlink            key+
exists            key+
touch             key+
dump              key
expire            key sec (NX|XX|GT|LT)* | key sec
pexpire           key msec (NX|XX|GT|LT)* | key msec
expireat          key at (NX|XX|GT|LT)* | key at
pexpireat         key msat (NX|XX|GT|LT)* | key msat
expiretime        key
pexpiretime       key
ttl               key
pttl              key
persist           key
type              key
move              key int
rename            key key
renamenx          key (fresh|key)
object|encoding   key
object|freq       key
object|idletime   key
object|refcount   key
object|help
memory|usage      key (SAMPLES int)?
memory|help
restore           fresh (0|msec) payload (REPLACE|ABSTTL|IDLETIME int|FREQ int)* | fresh 0
                  payload REPLACE
sort              (list|set) (ASC|DESC|ALPHA|LIMIT int int|GET sortget)* (STORE list)? |
                  (list|set) ALPHA | list BY sortby
sort_ro           (list|set) (ASC|DESC|ALPHA|LIMIT int int|GET sortget)* | list STORE list
publish           member value
spublish          key value
pubsub|help
"""

COLLECTIONS = """
lindex      list int
linsert     list (BEFORE|AFTER) value value | list MIDDLE value value
llen        list
lmove       list list (LEFT|RIGHT) (LEFT|RIGHT) | list list UP LEFT
lmpop       counted_list (LEFT|RIGHT) (COUNT count)?
lpop        list count?
lpos        list value (RANK int|COUNT int|MAXLEN int)*
lpush       list value+
lpushx      list value+
lrange      list int int | list 0 -1
lrem        list int value
lset        list int value
ltrim       list int int
rpop        list count?
rpoplpush   list list
rpush       list value+
rpushx      list value+
sadd        set member+
scard       set
sdiff       set+
sdiffstore  set set+
sinter      set+
sintercard  counted_set (LIMIT int)?
sinterstore set set+
sismember   set member
smembers    set
smismember  set member+
smove       set set member
spop        none count | set 1000 | list
srandmember set int?
srem        set member+
sscan       set cursor (MATCH pattern|COUNT 1000)*
sunion      set+
sunionstore set set+
hdel        hash field+
hexists     hash field
hget        hash field
hgetall     hash
hincrby     hash field int
hincrbyfloat hash field flt
hkeys       hash
hlen        hash
hmget       hash field+
hmset       hash (field value)+
hrandfield  hash (int WITHVALUES?)?
hscan       hash cursor (MATCH pattern|COUNT count)*
hset        hash (field value)+ | hash field int
hsetnx      hash field value
hstrlen     hash field
hvals       hash
"""

SORTED_SETS = """
zadd             zset (NX|XX)? (GT|LT)? CH? (flt member)+ | zset INCR flt member | zset INCR flt
                 member flt member
zcard            zset
zcount           zset smin smax
zdiff            counted_zset WITHSCORES?
zdiffstore       zset counted_zset
zincrby          zset flt member
zinter           counted_zset (WEIGHTS flt flt?)? (AGGREGATE (SUM|MIN|MAX|AVG))? WITHSCORES?
zintercard       counted_zset (LIMIT int)?
zinterstore      zset counted_zset (WEIGHTS flt flt?)? (AGGREGATE (SUM|MIN|MAX))?
zlexcount        zset lmin lmax
zmpop            counted_zset (MIN|MAX) (COUNT count)?
zmscore          zset member+
zpopmax          zset count?
zpopmin          zset count?
zrandmember      zset (int WITHSCORES?)?
zrange           zset int int WITHSCORES? | zset smin smax BYSCORE REV? (LIMIT int int)?
                 WITHSCORES? | zset lmin lmax BYLEX REV? (LIMIT int int)? | zset int int REV
                 (LIMIT int int)?
zrangebylex      zset lmin lmax (LIMIT int int)?
zrangebyscore    zset smin smax WITHSCORES? (LIMIT int int)?
zrangestore      zset zset int int REV? | zset zset smin smax BYSCORE (LIMIT int int)? | zset
                 zset lmin lmax BYLEX
zrank            zset member WITHSCORE?
zrem             zset member+
zremrangebylex   zset lmin lmax
zremrangebyrank  zset int int
zremrangebyscore zset smin smax
zrevrange        zset int int WITHSCORES?
zrevrangebylex   zset lmax lmin (LIMIT int int)?
zrevrangebyscore zset smax smin WITHSCORES? (LIMIT int int)?
zrevrank         zset member
zscan            zset cursor (MATCH pattern|COUNT count)*
zscore           zset member
zunion           counted_zset (WEIGHTS flt flt?)? (AGGREGATE (SUM|MIN|MAX|AVG))? WITHSCORES?
zunionstore      zset counted_zset (WEIGHTS flt flt?)? (AGGREGATE (SUM|MIN|MAX))?
geoadd           geo (NX|XX)? CH? (lon lat member)+
geodist          geo member member unit?
geohash          geo member*
geopos           geo member*
georadius        geo lon lat radius unit (WITHCOORD|WITHDIST|WITHHASH|COUNT count
                 ANY?|ASC|DESC)* | geo lon lat radius unit (STORE|STOREDIST) (zset|geo)
georadius_ro     geo lon lat radius unit (WITHCOORD|WITHDIST|WITHHASH|COUNT count
                 ANY?|ASC|DESC)* | geo lon lat radius unit STORE zset
georadiusbymember    geo member radius unit (WITHCOORD|WITHDIST|WITHHASH|COUNT count
                     ANY?|ASC|DESC)* | geo member radius unit (STORE|STOREDIST) (zset|geo)
georadiusbymember_ro geo member radius unit (WITHCOORD|WITHDIST|WITHHASH|COUNT count|ASC|DESC)*
geosearch        geo (FROMMEMBER member|FROMLONLAT lon lat) (BYRADIUS radius unit|BYBOX radius
                 radius unit) (ASC|DESC)? (COUNT count ANY?)? WITHCOORD? WITHDIST? WITHHASH?
geosearchstore   (zset|geo) geo (FROMMEMBER member|FROMLONLAT lon lat) (BYRADIUS radius
                 unit|BYBOX radius radius unit) (COUNT count)? STOREDIST?
"""

STREAMS = """
xack                  stream group rid+
xadd                  stream newid (field value)+ | stream NOMKSTREAM? (MAXLEN (=|~)?
                      count|MAXLEN ~ count LIMIT count|MINID (=|~)? rid)? newid (field value)+
xautoclaim            stream group consumer minidle rid (COUNT count)? JUSTID?
xclaim                stream group consumer minidle rid+ (IDLE int|TIME int|RETRYCOUNT
                      int|FORCE|JUSTID|LASTID rid)*
xdel                  stream rid+
xgroup|create         stream group (rid|$) MKSTREAM? (ENTRIESREAD int)?
xgroup|createconsumer stream group consumer
xgroup|delconsumer    stream group consumer
xgroup|destroy        stream group
xgroup|setid          stream group (rid|$) (ENTRIESREAD int)?
xgroup|help
xinfo|consumers       stream group
xinfo|groups          stream
xinfo|stream          stream (FULL (COUNT int)?)?
xinfo|help
xlen                  stream
xpending              stream group | stream group (IDLE minidle)? rmin rmax count consumer?
xrange                stream rmin rmax (COUNT int)?
xread                 (COUNT int)? STREAMS streams | COUNT int BLOCK 0 STREAMS streams | BLOCK
                      10 STREAMS streams
xreadgroup            GROUP group consumer (COUNT int)? NOACK? STREAMS gstreams | GROUP group
                      consumer BLOCK 5 STREAMS gstreams
xrevrange             stream rmax rmin (COUNT int)?
xsetid                stream newid (ENTRIESADDED int MAXDELETEDID rid)?
xtrim                 stream MAXLEN (=|~)? count | stream MINID (=|~)? rid | stream MAXLEN ~
                      count LIMIT count
"""

SCRIPTS = """
eval          script
eval_ro       script
evalsha       sha
evalsha_ro    sha
fcall         function
fcall_ro      function
script|help
function|help
"""

LOCAL = """
ping             value?
echo             value
time
auth             value | name value | DEFAULT value
select           0 | int
readonly
readwrite
asking
hello            'abc | 4 | -1 | int NOSUCH | 3 AUTH 'me value | 3 SETNAME | 2 AUTH DEFAULT
client|id
client|info
client|list      (TYPE (NORMAL|PUBSUB|REPLICA|NOSUCH)|ID int+|NOSUCH)?
client|setname   name
client|getname
client|no-evict  (ON|OFF|MAYBE)
client|reply     ON | MAYBE
client|kill      ID int | ID 999999999 | TYPE (REPLICA|MASTER|PUBSUB|NOSUCH) | ADDR value |
                 LADDR value | USER 'nosuch | ID 999999999 SKIPME (YES|NO|MAYBE) | 127.0.0.1:1 |
                 ID | NOSUCH value | ID 999999999 ADDR
client|help
command
command|count
command|info     commandname*
command|list     (FILTERBY (MODULE value|ACLCAT category|PATTERN pattern|NOSUCH value))? |
                 FILTERBY | NOSUCH
command|docs     commandname+
command|getkeys  whole
command|getkeysandflags whole
command|help
info             section*
config|get       parameter+
config|help
role
cluster|info
cluster|myid
cluster|slots
cluster|shards
cluster|nodes
cluster|keyslot  key | value
cluster|replicas value | nodeid
cluster|slaves   value
cluster|links
cluster|count-failure-reports value | nodeid
cluster|help
cluster|countkeysinslot slot
cluster|getkeysinslot   slot int | slot 1000
debug            OBJECT key | PROTOCOL ptype | PROTOCOL ptype value | SLEEP 0 | odd
"""

# What makes a key of a kind anew: a command without its key.
FILLS = """
str      SET value
num      SET int
bits     SETBIT (3|17|64) 1
txt      SET text
list     RPUSH value+ value+ int
set      SADD member+ member+ | SADD 1 2 30
zset     ZADD 1 'a 2 'b 3 'c | ZADD 0 'a 0 'b 0 'c 0 'd | ZADD (flt member)+
hash     HSET 'f1 value 'f2 value 'n1 10 | HSET (field value)+
stream   XADD newid 'f1 value
geo      GEOADD 13.361389 38.115556 'a 15.087269 37.502669 'b 2.35 48.85 'c
hll      PFADD 'a 'b 'c 'd
"""


def lines(text):
    """(name, template) of every line; one that starts with a blank goes on with the last."""
    for line in re.sub(r"\n +", " ", text.strip()).splitlines():
        name, _, template = line.partition(" ")
        yield name, template


def all_templates():
    return {name: template
            for text in (STRINGS, KEYSPACE, COLLECTIONS, SORTED_SETS, STREAMS, SCRIPTS, LOCAL)
            for name, template in lines(text)}
