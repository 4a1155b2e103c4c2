"""How networks charge for a transaction, a file for each kind."""

from chain.kinds.arbitrum import Arbitrum
from chain.kinds.base import NetworkKind
from chain.kinds.linea import Linea
from chain.kinds.mantle import Mantle
from chain.kinds.op_stack import OpStack
from chain.kinds.scroll import Scroll
from chain.kinds.zksync import ZkSync
from chain.networks import Kind

KINDS: dict[Kind, NetworkKind] = {
    Kind.NONE: NetworkKind(),
    Kind.OP_STACK: OpStack(),
    Kind.MANTLE: Mantle(),
    Kind.ARBITRUM: Arbitrum(),
    Kind.LINEA: Linea(),
    Kind.SCROLL: Scroll(),
    Kind.ZKSYNC: ZkSync(),
}
