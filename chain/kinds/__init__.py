"""How networks charge for a transaction, a file for each kind."""

from chain.kinds.arbitrum import Arbitrum
from chain.kinds.base import FeeModel
from chain.kinds.linea import Linea
from chain.kinds.mantle import Mantle
from chain.kinds.op_stack import OpStack
from chain.kinds.scroll import Scroll
from chain.kinds.zksync import ZkSync
from chain.networks import NetworkKind

KINDS: dict[NetworkKind, FeeModel] = {
    NetworkKind.NONE: FeeModel(),
    NetworkKind.OP_STACK: OpStack(),
    NetworkKind.MANTLE: Mantle(),
    NetworkKind.ARBITRUM: Arbitrum(),
    NetworkKind.LINEA: Linea(),
    NetworkKind.SCROLL: Scroll(),
    NetworkKind.ZKSYNC: ZkSync(),
}
