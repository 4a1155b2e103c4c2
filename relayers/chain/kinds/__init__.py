"""How networks charge for a transaction, a file for each kind."""

from relayers.chain.kinds.arbitrum import Arbitrum
from relayers.chain.kinds.base import NetworkKind
from relayers.chain.kinds.linea import Linea
from relayers.chain.kinds.mantle import Mantle
from relayers.chain.kinds.op_stack import OpStack
from relayers.chain.kinds.scroll import Scroll
from relayers.chain.kinds.zksync import ZkSync
from relayers.chain.networks import Kind

KINDS: dict[Kind, NetworkKind] = {
    Kind.NONE: NetworkKind(),
    Kind.OP_STACK: OpStack(),
    Kind.MANTLE: Mantle(),
    Kind.ARBITRUM: Arbitrum(),
    Kind.LINEA: Linea(),
    Kind.SCROLL: Scroll(),
    Kind.ZKSYNC: ZkSync(),
}
